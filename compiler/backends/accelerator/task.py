"""A task: an instruction before its tokens, with what it touches and whom it works for."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tilewright.hw.isa import Engine, Instruction, Memory, Segment


@dataclass(frozen=True, slots=True)
class ScratchpadAccess:
    """Tiles [start, start + count) of a scratchpad, read or written."""

    memory: Memory
    start: int
    count: int
    write: bool


@dataclass(frozen=True, slots=True)
class DramAccess:
    """Rows of bytes of a segment: z · y rows of `row_bytes`, at strides from `start`."""

    segment: Segment
    start: int
    row_bytes: int
    y: int
    y_stride: int
    z: int
    z_stride: int
    write: bool


Access = ScratchpadAccess | DramAccess


@dataclass(frozen=True, slots=True)
class Task:
    """`uops` is uint64[n] for GEMM and ALU, whose `uop_begin` is set once they have a place."""

    instruction: Instruction
    accesses: tuple[Access, ...]
    layer: int
    tensor: int = -1
    uops: NDArray[np.uint64] | None = field(default=None, compare=False)

    @property
    def engine(self) -> Engine:
        """The engine that runs it."""
        return self.instruction.ENGINE


@dataclass(frozen=True, slots=True)
class DramPlace:
    """Where a DRAM buffer lies; `tensor` is its index in the program, or −1."""

    segment: Segment
    offset: int
    tensor: int = -1


@dataclass(frozen=True, slots=True)
class Instance:
    """A scratchpad buffer while it lives: first tile, and concrete extents and strides."""

    memory: Memory
    base: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    axes: frozenset[str]
    """The loops around its allocation."""


Places = Mapping[str, DramPlace]


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a row-major array, in elements."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))
