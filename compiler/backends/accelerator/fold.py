"""Folding affine loops around an intrinsic into hardware loops and a list of uops."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.hw.isa import Uop, layout

NUM_LOOPS = 3
"""Hardware loops of a GEMM or ALU instruction."""

_UOP_OFFSETS = {field.name: np.uint64(field.offset) for field in layout(Uop)}

Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FoldAxis:
    """A loop: its iterations, the tiles a step moves each operand, whether it reduces."""

    extent: int
    strides: tuple[int, ...]
    reduces: bool


@dataclass(frozen=True, slots=True)
class Folded:
    """Where the axes went.

    `loops` become hardware loops, `uops` the uop list (first axis slowest); `unrolled` are those
    that fit neither: one instruction for each of their iterations.
    """

    unrolled: tuple[FoldAxis, ...]
    loops: tuple[FoldAxis, ...]
    uops: tuple[FoldAxis, ...]

    def bases(self, operands: int) -> Iterator[tuple[tuple[int, ...], bool]]:
        """Return each instruction's offsets by operand, and whether no reduction has begun."""
        for index in itertools.product(*(range(a.extent) for a in self.unrolled)):
            pairs = list(zip(index, self.unrolled, strict=True))
            offsets = tuple(sum(i * a.strides[k] for i, a in pairs) for k in range(operands))
            yield offsets, all(i == 0 for i, a in pairs if a.reduces)

    def uop_offsets(self, operands: int) -> tuple[list[Int64], NDArray[np.bool_]]:
        """Return int64[uops] for each operand, and which uops are the first of a reduction."""
        extents = tuple(a.extent for a in self.uops)
        count = math.prod(extents)
        index = np.indices(extents, np.int64).reshape(len(extents), count)
        offsets = []
        for k in range(operands):
            total = np.zeros(count, np.int64)
            for i, a in zip(index, self.uops, strict=True):
                total += i * a.strides[k]
            offsets.append(total)
        first = np.ones(count, np.bool_)
        for i, a in zip(index, self.uops, strict=True):
            if a.reduces:
                first &= i == 0
        return offsets, first


def fold(axes: Sequence[FoldAxis], *, max_uops: int, reductions_in_uops: bool = False) -> Folded:
    """Choose hardware loops for the longest axes, after merging those that step alike.

    The order of iterations is free but for reductions, whose index 0 comes first in every
    choice made here.
    """
    merged = _merge([a for a in axes if a.extent > 1])
    able = [i for i, a in enumerate(merged) if not (reductions_in_uops and a.reduces)]
    longest = sorted(able, key=lambda i: -merged[i].extent)[:NUM_LOOPS]
    loops = [a for i, a in enumerate(merged) if i in longest]
    uops = [a for i, a in enumerate(merged) if i not in longest]
    uops.sort(key=lambda a: a.reduces)
    unrolled = []
    while math.prod(a.extent for a in uops) > max_uops:
        excess = math.prod(a.extent for a in uops) / max_uops
        movable = [a for a in uops if not (reductions_in_uops and a.reduces)] or uops
        enough = [a for a in movable if a.extent >= excess]
        chosen = (
            min(enough, key=lambda a: a.extent) if enough else max(movable, key=lambda a: a.extent)
        )
        uops.remove(chosen)
        unrolled.append(chosen)
    return Folded(tuple(unrolled), tuple(loops), tuple(uops))


def _merge(axes: list[FoldAxis]) -> list[FoldAxis]:
    """Join pairs of which one steps on where the other ends, for every operand."""
    for outer, inner in itertools.permutations(range(len(axes)), 2):
        a, b = axes[outer], axes[inner]
        follows = all(s == b.extent * t for s, t in zip(a.strides, b.strides, strict=True))
        if follows and a.reduces == b.reduces:
            joined = FoldAxis(a.extent * b.extent, b.strides, b.reduces)
            rest = [axis for i, axis in enumerate(axes) if i not in (outer, inner)]
            return _merge([*rest[: min(outer, inner)], joined, *rest[min(outer, inner) :]])
    return axes


def pack_uops(
    dst: Int64, src: Int64, weight: Int64 | int, first: NDArray[np.bool_] | int
) -> NDArray[np.uint64]:
    """Return uint64[n] uops of int64[n] tile indices."""
    words = np.zeros(len(dst), np.uint64)
    for name, value in (("dst", dst), ("src", src), ("weight", weight), ("first", first)):
        words |= np.asarray(value).astype(np.uint64) << _UOP_OFFSETS[name]
    return words
