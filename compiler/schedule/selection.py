"""Movement of elements between packed tensors: which input channels each output tile selects.

Both tensors are affine in digits, the common refinement of their axes.  A digit that is a
position on both sides becomes a loop; one that is a channel on either side is enumerated: it
tells which lanes of which input tiles go to which lanes of which output tiles.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.ir.layout import C, H, Layout, N, W, factors_of_axes
from tilewright.compiler.schedule.work import num_blocks, num_images
from tilewright.hw.config import Config
from tilewright.hw.errors import CompileError
from tilewright.runtime.packing import Shape4

MAX_SELECTIONS = 1 << 16
"""Pairs of channels that are enumerated at most."""


@dataclass(frozen=True, slots=True)
class Span:
    """Where the elements of a part are along an axis: count of them from a start, by steps."""

    start: int
    step: int
    count: int


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two tensors of a move."""

    shape: tuple[int, ...]
    layout: Layout
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Digit:
    """A loop of a move: its iterations, and the tiles that a step moves input and output."""

    extent: int
    x_tiles: int
    y_tiles: int


@dataclass(frozen=True, slots=True)
class Pick:
    """Input tiles of one block of channels, and which of its lanes go where.

    `tiles` is their distance from the first, in input tiles; `lanes` bool[U, U] by output and
    input lane.
    """

    tiles: int
    lanes: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Job:
    """Output tiles of one block of channels, as the sum of what is picked from input tiles."""

    block: int
    tiles: int
    picks: tuple[Pick, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """A part's loops, and the jobs inside them."""

    digits: tuple[Digit, ...]
    jobs: tuple[Job, ...]


@dataclass(frozen=True, slots=True)
class _Affine:
    """Packed coordinates N, C, H, W of a side: constants, and the step of each digit."""

    start: Shape4
    steps: tuple[Shape4, ...]


def plan_move(x: Side, y: Side, config: Config) -> Move:
    """Return the move of the elements of x's spans to those of y's.

    Raises:
        CompileError: axes that do not refine each other, or a move between images of a tile.
    """
    extents = _extents(x, y)
    sides = [_affine(side, extents) for side in (x, y)]
    flat = [extent for axis in extents for extent in axis]
    subs = config.channel_lanes // config.block_in, config.channel_lanes // config.block_out
    tiles = [_tile_strides(s.layout.shape, n, config) for s, n in zip((x, y), subs, strict=True)]
    loops, chosen = list[Digit](), list[int]()
    if config.batch > 1:
        loops += _images(x, y, sides, tiles, config)
    for i, extent in enumerate(flat):
        steps = sides[0].steps[i], sides[1].steps[i]
        if config.batch > 1 and (steps[0][N] or steps[1][N]):
            continue
        if steps[0][C] or steps[1][C]:
            chosen.append(i)
            continue
        offsets = [_dot(step, t) for step, t in zip(steps, tiles, strict=True)]
        loops.append(Digit(extent, offsets[0], offsets[1]))
    jobs = _jobs([(flat[i], i) for i in chosen], sides, tiles, config)
    return Move(_merged(loops), jobs)


def _extents(x: Side, y: Side) -> list[list[int]]:
    """For each axis the extents of its digits, the slowest first."""
    result: list[list[int]] = []
    for axis, (a, b) in enumerate(zip(x.spans, y.spans, strict=True)):
        bounds = {1, a.count}
        for side in (x, y):
            factors = [side.layout.factors[i] for i in _factors(side)[axis]]
            if len(factors) < 2:
                continue
            if side.spans[axis] != Span(0, 1, side.shape[axis]):
                raise CompileError("a part of an axis moves that is split into packed dimensions")
            bounds |= {math.prod(factors[i:]) for i in range(len(factors))}
        ordered = sorted(bounds)
        extents = [high // low for low, high in itertools.pairwise(ordered)]
        if any(high % low for low, high in itertools.pairwise(ordered)) or a.count != b.count:
            raise CompileError("its axes are split into packed dimensions that do not match")
        result.append(extents[::-1])
    return result


def _factors(side: Side) -> list[list[int]]:
    return factors_of_axes(side.layout, side.shape)


def _affine(side: Side, extents: Sequence[Sequence[int]]) -> _Affine:
    """The packed coordinates of a side as functions of the digits."""
    layout = side.layout
    place = [0] * len(layout.factors)
    group_of = [0] * len(layout.factors)
    for group, members in enumerate(layout.groups):
        for position, factor in enumerate(members):
            place[factor] = math.prod(layout.factors[i] for i in members[position + 1 :])
            group_of[factor] = group
    start, steps = [0, 0, 0, 0], list[Shape4]()
    for axis, part in enumerate(_factors(side)):
        span = side.spans[axis]
        for number in range(len(extents[axis])):
            stride = math.prod(extents[axis][number + 1 :]) * span.step
            step = [0, 0, 0, 0]
            moved = _factor_at(layout, part, stride)
            if moved is not None:
                inner = math.prod(layout.factors[i] for i in part if i > moved)
                step[group_of[moved]] = stride // inner * place[moved]
            steps.append((step[0], step[1], step[2], step[3]))
        if span.start and part:
            start[group_of[part[0]]] += span.start * place[part[0]]
    return _Affine((start[0], start[1], start[2], start[3]), tuple(steps))


def _factor_at(layout: Layout, members: Sequence[int], stride: int) -> int | None:
    """The factor of an axis in which a step of `stride` along the axis moves."""
    inner = 1
    for factor in reversed(members):
        if stride < inner * layout.factors[factor] or factor == members[0]:
            return factor
        inner *= layout.factors[factor]
    return None


def _tile_strides(shape: Shape4, subs: int, config: Config) -> Shape4:
    """Tiles from one image, block of channels, row and column to the next."""
    _, channels, height, width = shape
    block = height * width * subs
    return num_blocks(channels, config) * block, block, width * subs, subs


def _dot(step: Shape4, tiles: Shape4) -> int:
    return step[N] * tiles[N] + step[H] * tiles[H] + step[W] * tiles[W]


def _images(
    x: Side, y: Side, sides: Sequence[_Affine], tiles: Sequence[Shape4], config: Config
) -> list[Digit]:
    """The loop over image tiles, in which images stay where they are."""
    images = [(side.start[N], [step[N] for step in side.steps]) for side in sides]
    if images[0] != images[1] or x.layout.shape[N] != y.layout.shape[N]:
        raise CompileError("images move inside a tile")
    count = num_images(x.layout.shape[N], config)
    return [Digit(count, tiles[0][N], tiles[1][N])]


def _jobs(
    digits: Sequence[tuple[int, int]],
    sides: Sequence[_Affine],
    tiles: Sequence[Shape4],
    config: Config,
) -> tuple[Job, ...]:
    """All jobs: an output block and offset each, with its picks."""
    lanes = config.channel_lanes
    extents = [extent for extent, _ in digits]
    count = math.prod(extents)
    if count > MAX_SELECTIONS:
        raise CompileError(f"it moves {count} channels one by one")
    index = np.indices(extents, np.int64).reshape(len(extents), count)
    channels, offsets = [], []
    for side, strides in zip(sides, tiles, strict=True):
        channel = np.full(count, side.start[C], np.int64)
        offset = np.full(count, _dot(side.start, strides), np.int64)
        for row, (_, digit) in zip(index, digits, strict=True):
            channel += row * side.steps[digit][C]
            offset += row * _dot(side.steps[digit], strides)
        channels.append(channel)
        offsets.append(offset)
    picks: dict[tuple[int, int], dict[int, NDArray[np.bool_]]] = {}
    rows = zip(*(a.tolist() for a in (*channels, *offsets)), strict=True)
    for x_channel, y_channel, x_offset, y_offset in rows:
        block, lane = divmod(y_channel, lanes)
        x_block, x_lane = divmod(x_channel, lanes)
        place = x_offset + x_block * tiles[0][C]
        job = picks.setdefault((block, y_offset + block * tiles[1][C]), {})
        if place not in job:
            job[place] = np.zeros((lanes, lanes), np.bool_)
        job[place][lane, x_lane] = True
    return tuple(
        Job(
            block,
            offset,
            tuple(
                Pick(place, lanes)
                for place, lanes in sorted(found.items(), key=lambda item: item[0])
            ),
        )
        for (block, offset), found in sorted(picks.items(), key=lambda item: item[0])
    )


def _merged(loops: Sequence[Digit]) -> tuple[Digit, ...]:
    """Loops without those of one iteration, those joined that step on from each other."""
    result: list[Digit] = []
    for loop in sorted(loops, key=lambda d: -d.y_tiles):
        if loop.extent == 1:
            continue
        last = result[-1] if result else None
        steps_on = last is not None and (last.x_tiles, last.y_tiles) == (
            loop.extent * loop.x_tiles,
            loop.extent * loop.y_tiles,
        )
        if last is not None and steps_on:
            result[-1] = Digit(last.extent * loop.extent, loop.x_tiles, loop.y_tiles)
        else:
            result.append(loop)
    return tuple(result)
