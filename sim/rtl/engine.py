"""`RtlEngine`: runs programs on the Verilated hardware, in this process, cycle by cycle."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tilewright.hw.config import Config
from tilewright.hw.errors import DeviceError, SimulationError
from tilewright.hw.isa import NUM_SEGMENTS, SEGMENT_ALIGNMENT, Engine, Segment
from tilewright.hw.registers import ErrorCause
from tilewright.runtime import driver
from tilewright.runtime.device import RunResult, Segments
from tilewright.sim.memory import MemoryModel
from tilewright.sim.rtl.build import build
from tilewright.sim.rtl.code import Code
from tilewright.sim.rtl.harness import EventKind, Harness, Outcome

CYCLES_A_CALL = 100_000
"""Between two looks at signals from the keyboard and two calls of `progress`."""

PIPELINE_CYCLES = 1_000
"""More than all pipelines together hold back a transfer or an event."""

_CAUSES = {
    ErrorCause.ILLEGAL_OPCODE: "illegal opcode",
    ErrorCause.READ_RESPONSE: "read outside its segment",
    ErrorCause.WRITE_RESPONSE: "write outside its segment",
}


class RtlEngine:
    """A `Device`: the accelerator of one config behind a memory of one model.

    The simulator is built on first use and kept in `cache` (default: the user's cache folder);
    `building` is entered while that lasts.
    `vcd` names a file for the waveforms of all runs, and selects a slower simulator that draws
    them.  `progress` is called every so often with the cycles run and instructions retired.
    Scratchpads start random, the same in every new engine of the same `seed`.
    """

    def __init__(
        self,
        config: Config,
        memory: MemoryModel | None = None,
        *,
        cache: Path | None = None,
        building: AbstractContextManager[object] | None = None,
        vcd: Path | None = None,
        progress: Callable[[int, int], None] | None = None,
        seed: int = 1,
    ) -> None:
        """Build or find the simulator.

        Raises:
            DeviceError: a tool is missing or fails, or the waveform file cannot be written.
        """
        self.config = config
        self.memory = memory or MemoryModel()
        self._vcd = vcd
        self._progress = progress
        self._seed = seed
        self._library = build(config, cache=cache, traced=vcd is not None, building=building)
        self._harness: Harness | None = self._open()

    def run(self, segments: Segments) -> RunResult:
        """Run the CODE segment until FINISH; WORKSPACE and OUTPUT are written in place.

        `spans` are in the cycles that the `cycles` counter counts, from 0.

        Raises:
            SimulationError: the machine stopped with an error, nothing moved for longer than
                the memory and the instructions can explain, or it broke a rule of AXI.
            DeviceError: the segments do not fit the config's address space.
        """
        code = Code(segments[Segment.CODE], self.config)
        bases = _place(segments, self.config)
        harness, self._harness = self._harness or self._open(), None
        try:
            result = self._run(harness, code, segments, bases)
        except BaseException:
            harness.close()
            raise
        self._harness = harness
        return result

    def _run(
        self, harness: Harness, code: Code, segments: Segments, bases: Mapping[Segment, int]
    ) -> RunResult:
        harness.attach(segments, bases)
        sizes = {segment: buffer.size for segment, buffer in segments.items()}
        driver.perform(driver.identify(self.config), harness)
        driver.perform(driver.start(bases, sizes, len(code)), harness)
        self._wait(harness, code)
        status = driver.perform(driver.read_status(), harness)
        if status.error:
            raise self._fault(harness, code)
        counters = driver.perform(driver.read_counters(), harness)
        harness.flush()
        spans = _spans(harness, code, counters.cycles)
        return RunResult(counters, spans, counters.bytes_read, counters.bytes_written)

    def _open(self) -> Harness:
        return Harness(self._library, self.memory, seed=self._seed, vcd=self._vcd)

    def _wait(self, harness: Harness, code: Code) -> None:
        patience = PIPELINE_CYCLES + 4 * self.memory.longest_silence + code.longest_steps
        while True:
            outcome = harness.run(CYCLES_A_CALL, patience=patience)
            if outcome is Outcome.STALLED:
                raise SimulationError(
                    f"rtl engine: nothing moved for {patience} cycles up to cycle"
                    f" {harness.cycle}; {_positions(harness, code)}"
                )
            if self._progress:
                retired = sum(harness.num_events(EventKind.RETIRE, engine) for engine in Engine)
                self._progress(harness.cycle, retired)
            if outcome is Outcome.INTERRUPT:
                return

    def _fault(self, harness: Harness, code: Code) -> SimulationError:
        cycle = harness.cycle
        fault = driver.perform(driver.read_fault(), harness)
        index = fault.index
        if fault.engine != "fetch":
            index = int(code.of_engine(Engine[fault.engine.upper()])[fault.index])
        return SimulationError(
            f"{fault.engine}: {code.describe(index)} stopped the machine about cycle {cycle}:"
            f" {_CAUSES[fault.cause]}"
        )


def _place(segments: Segments, config: Config) -> dict[Segment, int]:
    """Return a base address for each segment, in the upper half of the address space.

    No two segments share a page, and a page lies free between them.
    """
    address = 1 << config.axi_address_bits - 1
    bases = {}
    for segment in Segment:
        bases[segment] = address
        size = segments[segment].size if segment in segments else 0
        address += (-(-size // SEGMENT_ALIGNMENT) + 1) * SEGMENT_ALIGNMENT
    if address > 1 << config.axi_address_bits:
        total = address - (1 << config.axi_address_bits - 1)
        raise DeviceError(
            f"rtl engine: the {NUM_SEGMENTS} segments need {total} bytes, and half of the"
            f" {config.axi_address_bits}-bit address space has"
            f" {1 << config.axi_address_bits - 1}; choose a larger axi_address_bits"
        )
    return bases


def _spans(harness: Harness, code: Code, cycles: int) -> NDArray[np.int64]:
    """Return int64[n, 2]: start and retirement of every instruction, in code order.

    FINISH retires in the last cycle counted, which ties the harness's clock to the counter.
    """
    spans = np.zeros((len(code), 2), np.int64)
    last = 0
    for engine in Engine:
        order = code.of_engine(engine)
        for kind in EventKind:
            events = harness.events(kind, engine)
            if len(events) != len(order):
                raise SimulationError(
                    f"rtl engine: {engine.name.lower()} reported {len(events)} instructions"
                    f" {kind.name.lower()}ed, of {len(order)} in the code"
                )
            spans[order, kind] = events
            last = max(last, int(events.max(initial=0)))
    return spans - (last + 1 - cycles)


def _positions(harness: Harness, code: Code) -> str:
    """Say for each engine the instruction that it is stuck at."""
    texts = []
    for engine in Engine:
        order = code.of_engine(engine)
        retired = harness.num_events(EventKind.RETIRE, engine)
        started = harness.num_events(EventKind.START, engine)
        if retired < started:
            text = f"is executing {code.describe(int(order[retired]))}"
        elif started < len(order):
            text = f"waits to take {code.describe(int(order[started]))}"
        else:
            text = f"has retired all {len(order)} instructions"
        texts.append(f"{engine.name.lower()} {text}")
    return "; ".join(texts)
