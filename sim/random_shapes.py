"""Draws of sizes, strides and blocks that stay inside given bounds."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

PAGE_BYTES = 4096
"""Bursts end here, so rows that cross a multiple of it are worth drawing often."""


@dataclass(frozen=True, slots=True)
class Block:
    """Counts and pads of a LOAD or STORE, in tiles."""

    x: int
    y: int
    z: int
    pad_top: int = 0
    pad_bottom: int = 0
    pad_left: int = 0
    pad_right: int = 0

    @property
    def num_tiles(self) -> int:
        """Tiles of the padded block."""
        width = self.pad_left + self.x + self.pad_right
        return self.z * width * (self.pad_top + self.y + self.pad_bottom)


@dataclass(frozen=True, slots=True)
class Rows:
    """Where the rows of a block lie, in bytes."""

    offset: int
    y_stride: int
    z_stride: int


def pick(rng: np.random.Generator, *values: int) -> int:
    """Return one of the values."""
    return values[rng.integers(len(values))]


def draw_size(rng: np.random.Generator, limit: int) -> int:
    """Return 1 to `limit`, small values more often."""
    return min(limit, int((limit + 1) ** rng.random()))


def draw_block(rng: np.random.Generator, limit: int, *, padded: bool = False) -> Block:
    """Return a block of 1 to `limit` tiles; a padded one may have no rows or columns inside."""
    while True:
        x = draw_size(rng, limit)
        y = draw_size(rng, limit // x)
        z = draw_size(rng, limit // (x * y))
        if not padded or rng.random() < 0.5:
            return Block(x, y, z)
        pads = rng.integers(1, 4, 4) * (rng.random(4) < 0.6)
        x, y = (0 if rng.random() < 0.15 else extent for extent in (x, y))
        block = Block(x, y, z, *pads.tolist())
        if 0 < block.num_tiles <= limit:
            return block


def draw_strides(
    rng: np.random.Generator,
    extents: Sequence[int],
    naturals: Sequence[int],
    *,
    down: int,
    up: int,
    zero: float = 0.1,
) -> list[int]:
    """Return a signed stride for each loop.

    Together the loops go at most `down` below and `up` above where they start.  `naturals`
    are the strides of a dense walk; `zero` is the chance of no stride.  A loop of one
    iteration may get any stride.
    """
    strides = [0] * len(extents)
    for loop in rng.permutation(len(extents)):
        steps = extents[loop] - 1
        if steps == 0:
            strides[loop] = int(rng.integers(-64, 64)) if rng.random() < 0.3 else 0
            continue
        highest, lowest, natural = up // steps, -(down // steps), naturals[loop]
        uphill, downhill = int(rng.integers(highest + 1)), int(rng.integers(lowest, 1))
        stride = pick(rng, natural, natural, -natural, uphill, downhill)
        if rng.random() < zero:
            stride = 0
        stride = min(max(stride, lowest), highest)
        strides[loop] = stride
        up -= max(stride, 0) * steps
        down -= max(-stride, 0) * steps
    return strides


def draw_rows(
    rng: np.random.Generator,
    block: Block,
    *,
    tile_bytes: int,
    alignment: int,
    region: tuple[int, int],
) -> Rows:
    """Return a place for the block's rows inside `region` of a segment, in bytes.

    The region must have room for one row.
    """
    row = block.x * tile_bytes if block.y else 0
    low, high = -(-region[0] // alignment), (region[1] - row) // alignment
    start = int(rng.integers(low, high + 1))
    if row > alignment and rng.random() < 0.3:
        page = PAGE_BYTES * int(rng.integers(1, max(region[1] // PAGE_BYTES, 1) + 1))
        before = alignment * int(rng.integers(1, row // alignment))
        start = min(max((page - before) // alignment, low), high)
    natural = max(row // alignment, 1)
    strides = draw_strides(
        rng,
        (block.z, max(block.y, 1)),
        (natural * max(block.y, 1), natural),
        down=start - low,
        up=high - start,
    )
    return Rows(start * alignment, strides[1] * alignment, strides[0] * alignment)


def draw_column(rng: np.random.Generator, count: int, window: tuple[int, int]) -> NDArray[np.int64]:
    """Return one field of `count` uops inside [low, high): repeated, in order, or random."""
    low, high = window
    width = draw_size(rng, high - low)
    low += int(rng.integers(0, high - low - width + 1))
    patterns = (
        np.zeros(count, np.int64),
        np.arange(count) % width,
        np.arange(count) // 2 % width,
        rng.integers(0, width, count),
    )
    return low + patterns[rng.integers(len(patterns))]


def run_around(known: NDArray[np.bool_], low: int, high: int) -> tuple[int, int]:
    """Return the run [begin, end) of known tiles around tiles low to high, or all tiles."""
    if not known[low : high + 1].all():
        return 0, len(known)
    gaps = np.flatnonzero(~known)
    after = int(np.searchsorted(gaps, low))
    begin = int(gaps[after - 1]) + 1 if after else 0
    end = int(gaps[after]) if after < len(gaps) else len(known)
    return begin, end
