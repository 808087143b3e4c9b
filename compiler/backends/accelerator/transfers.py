"""Copies and stores as LOAD and STORE instructions: boxes collapsed to three dimensions."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from tilewright.hw.errors import CompileError

MAX_COUNT = (1 << 16) - 1
MAX_PAD = 255
LOG2_PERIOD_MAX = 7


@dataclass(frozen=True, slots=True)
class Dim:
    """A dimension of a box, innermost first in a list.

    `count` elements are in DRAM at `dram` bytes from each other; `before` and `after` pad
    elements surround them.  Elements are `tiles` scratchpad tiles apart; `parameter` rows
    apart for a store.
    """

    count: int
    dram: int
    tiles: int
    before: int = 0
    after: int = 0
    parameter: int = 0

    @property
    def total(self) -> int:
        """Elements, pads included."""
        return self.before + self.count + self.after

    @property
    def padded(self) -> bool:
        """Whether it has pads."""
        return bool(self.before or self.after)


@dataclass(frozen=True, slots=True)
class Block:
    """One LOAD: offsets from the box's own, and its x, y, z dimensions."""

    dram: int
    tiles: int
    x: Dim
    y: Dim
    z: Dim


def load_blocks(dims: Sequence[Dim], tile_bytes: int) -> Iterator[Block]:
    """Return LOADs that together copy a box of tiles into consecutive scratchpad tiles.

    Raises:
        CompileError: pads that no LOAD can make.
    """
    rest = [d for d in dims if d.total > 1 or d.padded]
    x, rest = _take_row(rest, tile_bytes)
    y, rest = _take(rest, x.total, padded=True)
    z, rest = _take(rest, x.total * y.total, padded=False)
    if any(d.padded for d in rest):
        raise CompileError("lower: a copy is padded in a dimension that no LOAD pads")
    for index in itertools.product(*(range(d.count) for d in rest)):
        steps = list(zip(index, rest, strict=True))
        yield Block(sum(i * d.dram for i, d in steps), sum(i * d.tiles for i, d in steps), x, y, z)


def _take_row(dims: list[Dim], tile_bytes: int) -> tuple[Dim, list[Dim]]:
    """The x dimension: tiles adjacent in DRAM and scratchpad; only its outermost part is padded."""
    row, dims = Dim(1, tile_bytes, 1), list(dims)
    while dims and not row.padded:
        d = dims[0]
        adjacent = d.tiles == row.count and (d.dram == row.count * tile_bytes or d.count <= 1)
        pads = max(d.before, d.after) * row.count
        if not adjacent or pads > MAX_PAD or d.count * row.count > MAX_COUNT:
            break
        size = row.count
        row = Dim(d.count * size, tile_bytes, 1, d.before * size, d.after * size)
        dims.pop(0)
    return row, dims


def _take(dims: list[Dim], tiles: int, *, padded: bool) -> tuple[Dim, list[Dim]]:
    """The next dimension if it continues the scratchpad, with those that step on from it."""
    if not dims or dims[0].tiles != tiles or (dims[0].padded and not padded):
        return Dim(1, 0, tiles), dims
    taken, dims = dims[0], dims[1:]
    if max(taken.before, taken.after) > MAX_PAD:
        raise CompileError(f"lower: a copy is padded by more than {MAX_PAD} tiles")
    while dims and not taken.padded and not dims[0].padded:
        d = dims[0]
        follows = d.tiles == taken.count * taken.tiles and d.dram == taken.count * taken.dram
        if not follows or d.count * taken.count > MAX_COUNT:
            break
        taken, dims = replace(taken, count=taken.count * d.count), dims[1:]
    return taken, dims


@dataclass(frozen=True, slots=True)
class StoreBlock:
    """One STORE: offsets from the box's own, dimensions, and how parameters repeat."""

    dram: int
    tiles: int
    parameter: int
    x: int
    y: Dim
    z: Dim
    log2_period: int


def store_blocks(dims: Sequence[Dim], tile_bytes: int) -> Iterator[StoreBlock]:
    """Return STOREs that together write a box of accumulator tiles."""
    x, period, rest = 1, 1, [d for d in dims if d.count > 1]
    while rest:
        d = rest[0]
        adjacent = d.tiles == x and d.dram == x * tile_bytes and d.count * x <= MAX_COUNT
        if not adjacent:
            break
        if d.parameter:
            grown = 1 << (d.count * x - 1).bit_length()
            if d.parameter != x or grown > 1 << LOG2_PERIOD_MAX or period != x:
                break
            period = grown
        elif x % period:
            break
        x *= d.count
        rest = rest[1:]
    y = Dim(1, 0, x)
    if rest and not rest[0].parameter:
        y, rest = rest[0], rest[1:]
    z = Dim(1, 0, 1)
    if rest and _steps_z(rest[0], y, period):
        z, rest = rest[0], rest[1:]
    for index in itertools.product(*(range(d.count) for d in rest)):
        steps = list(zip(index, rest, strict=True))
        yield StoreBlock(
            sum(i * d.dram for i, d in steps),
            sum(i * d.tiles for i, d in steps),
            sum(i * d.parameter for i, d in steps),
            x,
            y if y.count > 1 or z.count == 1 else replace(y, tiles=z.tiles),
            z,
            period.bit_length() - 1,
        )


def _steps_z(d: Dim, y: Dim, period: int) -> bool:
    """Whether a dimension can be z: its tiles follow y's rows, its parameters the period."""
    in_step = y.count == 1 or d.tiles == y.count * y.tiles
    return in_step and d.parameter in (0, period)
