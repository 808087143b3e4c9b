"""Traces in the Chrome format (load them in Perfetto or chrome://tracing).

One track an engine shows its instructions under their layer's name, one track the layers.
Times are the machine's: a cycle lasts 1 / clock microseconds.
"""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from tilewright.hw.encoding import decode, disassemble
from tilewright.hw.errors import SimulationError
from tilewright.hw.isa import Engine
from tilewright.runtime.executor import Execution, Invocation
from tilewright.runtime.program import Program

LAYER_TRACK = len(Engine)


def trace_json(program: Program, execution: Execution) -> str:
    """Return the trace of one request as JSON text.

    Raises:
        SimulationError: the request ran on an engine without time.
    """
    events: list[dict[str, Any]] = [_named("process_name", 0, program.name)]
    events += [_named("thread_name", engine, engine.name.lower()) for engine in Engine]
    events.append(_named("thread_name", LAYER_TRACK, "layers"))
    start = 0
    for invocation in execution.invocations:
        counters = invocation.result.counters
        if counters is None or invocation.result.spans is None:
            raise SimulationError("trace: this engine has no time; use --engine rtl")
        events += _instruction_events(program, invocation, invocation.result.spans + start)
        events += _layer_events(program, invocation, invocation.result.spans + start)
        start += counters.cycles
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}) + "\n"


def _named(kind: str, track: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": kind, "pid": 0, "tid": int(track), "args": {"name": name}}


def _event(
    program: Program, name: str, track: int, begin: int, end: int, **args: str | int
) -> dict[str, Any]:
    clock = program.config.clock_mhz
    return {
        "ph": "X",
        "name": name,
        "pid": 0,
        "tid": int(track),
        "ts": begin / clock,
        "dur": (end - begin) / clock,
        "args": args,
    }


def _instruction_events(
    program: Program, invocation: Invocation, spans: np.ndarray[Any, np.dtype[np.int64]]
) -> Iterator[dict[str, Any]]:
    """Yield an event an instruction; a track shows one at a time, each after the last.

    An engine takes an instruction while earlier ones are in flight; `taken` keeps that cycle.
    """
    free = dict.fromkeys(Engine, 0)
    code = decode(program.code[invocation.first : invocation.first + invocation.count])
    for offset, (task, (taken, retired)) in enumerate(zip(code, spans.tolist(), strict=True)):
        layer = int(program.layer_of[invocation.first + offset])
        name = program.layers[layer].name if layer >= 0 else type(task).__name__.lower()
        begin = min(max(taken, free[task.ENGINE]), retired)
        free[task.ENGINE] = retired
        yield _event(
            program,
            name,
            task.ENGINE,
            begin,
            retired,
            index=invocation.first + offset,
            instruction=disassemble(task),
            taken=taken,
            retired=retired,
        )


def _layer_events(
    program: Program, invocation: Invocation, spans: np.ndarray[Any, np.dtype[np.int64]]
) -> Iterator[dict[str, Any]]:
    owners = program.layer_of[invocation.first : invocation.first + invocation.count]
    latest = int(spans[0, 0])
    for layer in np.unique(owners[owners >= 0]).tolist():
        retired = int(spans[owners == layer, 1].max())
        begin, latest = latest, max(latest, retired)
        row = program.layers[layer]
        yield _event(program, row.name, LAYER_TRACK, begin, latest, op=row.op, macs=row.macs)
