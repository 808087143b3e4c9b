"""What a machine is to the runtime: something that runs code over DRAM segments."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tilewright.hw.isa import Segment

Segments = Mapping[Segment, NDArray[np.uint8]]
"""DRAM contents by segment, flat uint8 arrays.  CODE is uint8[n · 32]; the machine writes
WORKSPACE and OUTPUT in place."""


@dataclass(frozen=True, slots=True)
class Counters:
    """What the hardware counted in one run; `engines[engine][cause]` are cycles.

    Engines and causes are those of `hw.registers.ENGINES` and `CAUSES`; each engine's causes
    add up to `cycles`.
    """

    cycles: int
    bytes_read: int
    bytes_written: int
    instructions: int
    engines: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class RunResult:
    """The outcome of one run of the machine.

    `counters` is None for an engine without time.  `spans` is int64[n, 2]: for every task
    instruction in code order, the cycle it was taken by its engine and the cycle it retired;
    None where the engine has no time.  `bytes_read`, `bytes_written` are DRAM traffic in every
    engine: whole beats of the code and of each row that a LOAD reads, and the bytes of STOREs.
    """

    counters: Counters | None
    spans: NDArray[np.int64] | None
    bytes_read: int
    bytes_written: int


class Device(Protocol):
    """A machine of one config that can run a program's code."""

    def run(self, segments: Segments) -> RunResult:
        """Run the CODE segment from reset until FINISH; scratchpads start undefined.

        Raises:
            SimulationError: the program broke a rule of the machine, or did not finish.
        """
        ...
