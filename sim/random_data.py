"""Contents of DRAM for random programs: values that reach the corners of the arithmetic."""

import numpy as np
from numpy.typing import NDArray

from tilewright.hw.config import UOP_BYTES, Config
from tilewright.hw.encoding import encode_parameters
from tilewright.hw.isa import Segment, Uop, layout
from tilewright.sim.random_shapes import PAGE_BYTES, Block, Rows

Bytes = NDArray[np.uint8]
Int64 = NDArray[np.int64]

CHUNK = 64
"""Neighbouring values are drawn from one distribution, so that some tiles are all corners."""

CORNERS = np.array([0, 1, -1, 2, -2, (1 << 31) - 1, -(1 << 31), (1 << 31) - 2, 1 << 30, -(1 << 17)])

TIE_SHIFTS = (1, 3, 20)
"""Shifts that leave many of the prepared values exactly between two integers."""


def segment_bytes(config: Config) -> int:
    """Return a segment size with room for several pages, tiles and bursts."""
    burst = config.axi_burst_beats * config.axi_bytes
    need = max(4 * PAGE_BYTES, 12 * max(config.tile_bytes().values()), 6 * burst)
    return -(-need // PAGE_BYTES) * PAGE_BYTES


def draw_words(rng: np.random.Generator, count: int, *, ties: bool) -> Bytes:
    """Return `count` int32 values as bytes: corners, shift amounts, small and any values.

    With `ties` all of them are multiples of half of what the shifts in `TIE_SHIFTS` drop.
    """
    chunks = []
    for _ in range(-(-count // CHUNK)):
        kinds = (
            rng.integers(-(1 << 31), 1 << 31, CHUNK),
            rng.integers(-300, 300, CHUNK),
            rng.choice(CORNERS, CHUNK),
            rng.integers(-40, 70, CHUNK),
            (1 << rng.integers(0, 31, CHUNK)) + rng.integers(-1, 2, CHUNK),
            rng.integers(-300, 300, CHUNK) << (rng.choice(TIE_SHIFTS) - 1),
        )
        chunks.append(kinds[-1 if ties else rng.integers(len(kinds))])
    return np.concatenate(chunks)[:count].astype("<i4").view(np.uint8)


def draw_parameters(rng: np.random.Generator, count: int, *, ties: bool) -> Bytes:
    """Return `count` output-stage parameters as bytes.

    Some scale any int32 to 8 bits, some small sums; some, with `ties` all, divide by the
    powers of two of `TIE_SHIFTS`.
    """
    bias = rng.choice([0, 1, -1, 5, -(1 << 31), (1 << 31) - 1], count)
    bias = np.where(rng.random(count) < 0.4, rng.integers(-(1 << 20), 1 << 20, count), bias)
    multiplier, shift = np.empty(count, np.int64), np.empty(count, np.int64)
    for begin in range(0, count, 16):
        part = slice(begin, min(begin + 16, count))
        size = part.stop - begin
        scale = int(rng.integers(0, 24))
        tie = np.full(size, scale + rng.choice(TIE_SHIFTS))
        kinds = (
            (rng.integers(1 << 23, 1 << 24, size), rng.integers(45, 52, size)),
            (rng.integers(1 << 23, 1 << 24, size), rng.integers(23, 38, size)),
            (1 << rng.integers(0, 24, size), rng.integers(0, 48, size)),
            (rng.choice([0, 1, (1 << 24) - 1, 1 << 23], size), rng.choice([0, 1, 62, 63], size)),
            (np.full(size, 1 << scale), tie),
        )
        kind = -1 if ties else rng.integers(len(kinds))
        multiplier[part], shift[part] = kinds[kind]
        if kinds[kind][1] is tie:
            bias[part] = 0
    return encode_parameters(bias, multiplier, shift).astype("<u8").view(np.uint8)


def random_segments(config: Config, rng: np.random.Generator) -> dict[Segment, Bytes]:
    """Return every segment but CODE, filled."""
    size = segment_bytes(config)
    ties = rng.random() < 0.3
    segments = {
        segment: rng.integers(0, 256, size, np.uint8)
        for segment in (Segment.INPUT, Segment.WORKSPACE, Segment.OUTPUT)
    }
    kinds = (
        rng.integers(0, 256, size, np.uint8),
        draw_words(rng, size // 4, ties=ties),
        draw_parameters(rng, size // 8, ties=ties),
    )
    segments[Segment.CONSTANTS] = np.concatenate(kinds)
    return segments


def words_region(config: Config) -> tuple[int, int]:
    """Return the bytes of CONSTANTS that `random_segments` filled with int32 values."""
    return segment_bytes(config), 2 * segment_bytes(config)


def parameters_region(config: Config) -> tuple[int, int]:
    """Return the bytes of CONSTANTS that `random_segments` filled with parameters."""
    return 2 * segment_bytes(config), 3 * segment_bytes(config)


class UopTables:
    """Uop tables, to be appended to CONSTANTS at `base`."""

    def __init__(self, base: int) -> None:
        self._base = base
        self._pieces: list[Bytes] = []
        self._end = base

    def add(self, columns: dict[str, Int64], block: Block, rng: np.random.Generator) -> Rows:
        """Lay out the uops of a z·y·x block with gaps between rows; return where they lie.

        columns: the fields of `Uop`, int64[z · y · x] each.
        """
        words = np.zeros(block.num_tiles, np.uint64)
        for field in layout(Uop):
            words |= columns[field.name].astype(np.uint64) << np.uint64(field.offset)
        y_stride = block.x + int(rng.integers(0, 3))
        z_stride = block.y * y_stride
        # Rows and planes may lie in descending order: the strides are then negative.
        y_sign, z_sign = rng.choice([-1, 1], 2).tolist()
        z, y, x = np.ogrid[: block.z, : block.y, : block.x]
        first = (block.y - 1) * y_stride * (y_sign < 0) + (block.z - 1) * z_stride * (z_sign < 0)
        slot = first + z * z_sign * z_stride + y * y_sign * y_stride + x
        gap = int(rng.integers(0, 16))
        data = rng.integers(0, 1 << 63, gap + block.z * z_stride, np.uint64)
        data[gap + slot.reshape(-1)] = words
        offset = self._end + (gap + first) * UOP_BYTES
        self._pieces.append(data.astype("<u8").view(np.uint8))
        self._end += data.nbytes
        return Rows(offset, y_sign * y_stride * UOP_BYTES, z_sign * z_stride * UOP_BYTES)

    def data(self) -> Bytes:
        """Return all tables."""
        return np.concatenate([*self._pieces, np.zeros(0, np.uint8)])
