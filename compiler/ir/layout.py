"""Layouts: which parts of a tensor's axes its packed dimensions N, C, H and W are made of.

Reshape and Transpose keep the packed bytes and only rename the parts, so they cost nothing
until an operator needs other channels.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.hw.config import Config
from tilewright.runtime.packing import Shape4

N, C, H, W = range(4)
Axes = tuple[tuple[int, int], ...]
"""(stride in the row-major tensor, extent) of packed axes, the outermost first."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The axes split into `factors` above 1, and for N, C, H, W the indices of their factors."""

    factors: tuple[int, ...]
    groups: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]

    @property
    def shape(self) -> Shape4:
        """The packed shape (N, C, H, W)."""
        n, c, h, w = (math.prod(self.factors[i] for i in group) for group in self.groups)
        return n, c, h, w

    @property
    def order(self) -> tuple[int, ...]:
        """The factors from the slowest packed one to the fastest."""
        return tuple(i for group in self.groups for i in group)

    def axes(self, group: int) -> Axes:
        """Return the axes of a packed dimension, those merged that step on from each other."""
        strides = [math.prod(self.factors[i + 1 :]) for i in range(len(self.factors))]
        return _merged([(strides[i], self.factors[i]) for i in self.groups[group]])


def layout_of(shape: Sequence[int], groups: Sequence[Sequence[int]]) -> Layout:
    """Return the layout whose packed dimensions are made of whole axes."""
    kept = [i for i, size in enumerate(shape) if size != 1]
    n, c, h, w = (tuple(kept.index(a) for a in group if a in kept) for group in groups)
    return Layout(tuple(shape[i] for i in kept), (n, c, h, w))


def image_layout(shape: Sequence[int]) -> Layout:
    """Return the layout in which axis 1 is the channels and the last axis the columns."""
    rank = len(shape)
    if rank < 2:
        return layout_of(shape, ((), range(rank), (), ()))
    return layout_of(shape, ((0,), (1,), range(2, rank - 1), range(max(2, rank - 1), rank)))


def rows_layout(shape: Sequence[int]) -> Layout | None:
    """Return the layout of matrix rows: the last axis is the channels; None below rank 2."""
    rank = len(shape)
    if rank < 2:
        return None
    if rank == 2:
        return image_layout(shape)
    return layout_of(shape, ((0,), (rank - 1,), range(1, rank - 2), (rank - 2,)))


def weights_layout(shape: Sequence[int], config: Config) -> Layout | None:
    """Return the layout in which weight tiles […, K, M] lie one after another.

    Columns are pixels of K channels; where an input tile is narrower than a block of channels,
    a pixel is a part of K of as many columns as fill the block.  None if they do not fill it.
    """
    rank = len(shape)
    if rank < 2:
        return None
    planes = range(1, rank - 2)
    images = (0,) if rank > 2 else ()
    if config.block_in == config.channel_lanes:
        return layout_of(shape, (images, (rank - 2,), planes, (rank - 1,)))
    columns = config.channel_lanes // config.block_in
    if shape[-2] % config.block_in or shape[-1] % columns:
        return None
    split = (*shape[:-2], shape[-2] // config.block_in, config.block_in)
    split = (*split, shape[-1] // columns, columns)
    groups = (images, (rank + 1, rank - 1), (*planes, rank - 2), (rank,))
    return layout_of(split, groups)


def factors_of_axes(layout: Layout, shape: Sequence[int]) -> list[list[int]]:
    """Return for each axis of a shape the indices of its factors."""
    parts, at = [], 0
    for size in shape:
        start, product = at, 1
        while product < size:
            product *= layout.factors[at]
            at += 1
        parts.append(list(range(start, at)))
    return parts


def transposed(layout: Layout, shape: Sequence[int], perm: Sequence[int]) -> Layout:
    """Return the layout, over the permuted axes, of the same packed bytes."""
    parts = factors_of_axes(layout, shape)
    moved = [i for axis in perm for i in parts[axis]]
    n, c, h, w = (tuple(moved.index(i) for i in group) for group in layout.groups)
    return Layout(tuple(layout.factors[i] for i in moved), (n, c, h, w))


def reshaped(layout: Layout, shape: Sequence[int]) -> Layout | None:
    """Return the layout, over the new shape, of the same packed bytes; None if it has none."""
    pieces: list[list[int]] = [[] for _ in layout.factors]
    rest, size = [extent for extent in shape if extent != 1], 1
    for i in reversed(range(len(layout.factors))):
        left = layout.factors[i]
        while left > 1:
            size = size if size > 1 else rest.pop()
            piece = min(left, size)
            if left % piece or size % piece:
                return None
            pieces[i].insert(0, piece)
            left, size = left // piece, size // piece
    starts = [sum(len(p) for p in pieces[:i]) for i in range(len(pieces))]
    n, c, h, w = (
        tuple(starts[i] + k for i in group for k in range(len(pieces[i])))
        for group in layout.groups
    )
    return Layout(tuple(p for piece in pieces for p in piece), (n, c, h, w))


def without_axes(layout: Layout, shape: Sequence[int], dropped: Sequence[int]) -> Layout:
    """Return the layout of a tensor that has 1 where `dropped` axes are, otherwise alike."""
    parts = factors_of_axes(layout, shape)
    kept = [i for axis, part in enumerate(parts) if axis not in dropped for i in part]
    n, c, h, w = (tuple(kept.index(i) for i in group if i in kept) for group in layout.groups)
    return Layout(tuple(layout.factors[i] for i in kept), (n, c, h, w))


def resized(layout: Layout, shape: Sequence[int], new: Sequence[int]) -> Layout | None:
    """Return the layout of a tensor of another size along some axes, otherwise alike.

    None if one of these is split, or 1 and so in no packed dimension.
    """
    if len(shape) != len(new):
        return None
    parts, sizes = factors_of_axes(layout, shape), dict[int, int]()
    for part, size, wanted in zip(parts, shape, new, strict=True):
        if size == wanted:
            continue
        if len(part) != 1:
            return None
        sizes[part[0]] = wanted
    factors = [sizes.get(i, factor) for i, factor in enumerate(layout.factors)]
    kept = [i for i, factor in enumerate(factors) if factor != 1]
    n, c, h, w = (tuple(kept.index(i) for i in group if i in kept) for group in layout.groups)
    return Layout(tuple(factors[i] for i in kept), (n, c, h, w))


def packed_axes(layout: Layout, config: Config) -> tuple[object, ...]:
    """Return what decides the packed bytes: layouts of one shape with equal ones lie alike."""
    lanes, size = config.channel_lanes, 1
    pixels = (*layout.axes(H), *layout.axes(W))
    channels, inner = list(layout.axes(C)), list[tuple[int, int]]()
    while channels and size < lanes:
        stride, extent = channels.pop()
        take = min(extent, lanes // size)
        inner.insert(0, (stride, take))
        size *= take
        if take < extent:
            channels.append((stride * take, extent // take if extent % take == 0 else 0))
            break
    if channels and (size != lanes or channels[-1][1] == 0):
        return "tail", layout.axes(N), layout.axes(C), _merged(pixels)
    images = layout.axes(N)
    outer = [*channels, *pixels]
    if config.batch == 1:
        return (), _merged([*images, *outer]), tuple(inner)
    return images, _merged(outer), tuple(inner)


def _merged(axes: Sequence[tuple[int, int]]) -> Axes:
    merged: list[tuple[int, int]] = []
    for stride, extent in axes:
        if merged and merged[-1][0] == stride * extent:
            merged.append((stride, extent * merged.pop()[1]))
        else:
            merged.append((stride, extent))
    return tuple(merged)


REQUIRED = {
    "AveragePool": image_layout,
    "Conv": image_layout,
    "MatMul": rows_layout,
    "MaxPool": image_layout,
}
"""The layout of activations and outputs of the operators that need a certain one."""

ELEMENTWISE = frozenset({"Add", "Mul", "Requantize", "Sub"})
"""Operators whose operands lie like their output, whatever that is."""

MOVES = frozenset({"Concat", "Expand", "Gather", "Slice"})
"""Operators that move elements; their output lies like the first input as far as it can."""

ALIASES = frozenset(
    {"Flatten", "Identity", "Reinterpret", "Reshape", "Squeeze", "Transpose", "Unsqueeze"}
)
"""Operators whose output is their input's packed bytes, its axes named anew."""
