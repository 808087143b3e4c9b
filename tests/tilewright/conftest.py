"""A device with made-up times, and requests served by it."""

import numpy as np
import pytest

from tilewright.hw.registers import CAUSES, ENGINES
from tilewright.runtime.device import Counters, RunResult, Segments
from tilewright.runtime.executor import Execution, Executor
from tilewright.runtime.program import Program
from tilewright.sim.functional import FunctionalEngine

CYCLES = 100
RETIRED = (10, 12, 14, 20, 30, 40, 28, 50, 60, 70, 99)


class TimedDevice:
    """The functional engine, with the same times in every run of `two_layers`."""

    def __init__(self, program: Program) -> None:
        self._engine = FunctionalEngine(program.config)

    def run(self, segments: Segments) -> RunResult:
        traffic = self._engine.run(segments)
        read, written = traffic.bytes_read, traffic.bytes_written
        causes = dict.fromkeys(CAUSES, CYCLES // len(CAUSES))
        counters = Counters(CYCLES, read, written, len(RETIRED), dict.fromkeys(ENGINES, causes))
        retired = np.array(RETIRED, np.int64)
        return RunResult(counters, np.stack([retired - 8, retired], axis=1), read, written)


@pytest.fixture
def timed(two_layers: Program) -> Execution:
    """One request to `two_layers` on a device with time."""
    executor = Executor(two_layers, TimedDevice(two_layers))
    return executor.run({"x": np.array([[1, -2, 3, 4]], np.int8)})


@pytest.fixture
def untimed(two_layers: Program) -> Execution:
    """One request to `two_layers` on a device without time."""
    executor = Executor(two_layers, FunctionalEngine(two_layers.config))
    return executor.run({"x": np.array([[1, -2, 3, 4]], np.int8)})
