"""The template of element-wise operators: widen, compute on the ALU, store requantized.

Operands lie alike, so dimensions that all of them step through alike are one.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.ir.loops import (
    ZERO,
    Affine,
    Allocate,
    Buffer,
    Copy,
    Extent,
    For,
    Intrinsic,
    Kernel,
    Kind,
    Operand,
    Region,
    Scope,
    Statement,
    Store,
    axis,
    fixed,
    nest,
    tiled,
    whole,
)
from tilewright.hw.config import Config
from tilewright.hw.errors import CompileError

Bytes = NDArray[np.uint8]
Tiles = tuple[int, ...]
"""Tiles along N, C, H, W and within a block of channels."""

PIECES = 16
"""Tiles that a tensor is cut into at least, so that load and store overlap."""
THREADS = (4, 2)
"""Virtual threads: with four, load, ALU and store each have a tile and none waits for two."""


@dataclass(frozen=True, slots=True)
class Source:
    """An operand, widened and less its zero point; its tiles are 1 where it is broadcast.

    It is `value` of the graph, or the bytes of a constant.
    """

    dtype: str
    tiles: Tiles
    zero_point: int
    value: str = ""
    data: Bytes | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One intrinsic on the first operand's accumulators; `source` is another's index."""

    intrinsic: str
    source: int | None = None
    immediate: int = 0


@dataclass(frozen=True, slots=True)
class Elementwise:
    """An element-wise layer: the first source has the output's tiles.

    `rows` is uint64[rows, block_out], one row a tile of channels, or a single one.
    """

    name: str
    sources: tuple[Source, ...]
    steps: tuple[Step, ...]
    y: str
    y_dtype: str
    rows: NDArray[np.uint64]
    zero_point: int
    low: int
    high: int


def build_elementwise(layer: Elementwise, config: Config) -> Kernel:
    """Return the kernel of a layer.

    Raises:
        CompileError: not even one tile of each operand fits.
    """
    return _Builder(layer, config).kernel()


class _Builder:
    def __init__(self, layer: Elementwise, config: Config) -> None:
        self._layer, self._depths = layer, config.depths()
        tiles = layer.sources[0].tiles
        per_channel = (1, tiles[1], 1, 1, tiles[4]) if len(layer.rows) > 1 else (1,) * len(tiles)
        users = [source.tiles for source in layer.sources] + [per_channel]
        self._extents, self._used = _merge(tiles, users)
        self._threads, self._split, self._size = self._tile()

    def kernel(self) -> Kernel:
        layer = self._layer
        outside: list[Statement] = []
        body: list[Statement] = []
        widened = [self._widened(number, source) for number, source in enumerate(layer.sources)]
        accumulators = [tile for tile, _ in widened]
        # The operand that steps write comes last: its bank takes no load while they do.
        for tile, copy in reversed(widened):
            body += [Allocate(tile), copy]
        body += [self._compute(step, accumulators) for step in layer.steps]
        parameters = self._parameters(outside, body)
        y = Buffer("y", layer.y_dtype, fixed(*self._extents), Scope.DRAM)
        acc = accumulators[0]
        body.append(
            Store(
                Region(y, self._origin(0), acc.shape),
                whole(acc),
                parameters,
                layer.zero_point,
                layer.low,
                layer.high,
            )
        )
        constants = {
            f"x{number}": source.data
            for number, source in enumerate(layer.sources)
            if source.data is not None
        }
        return Kernel(
            layer.name,
            (*outside, *self._loops(tuple(body))),
            {f"x{n}": source.value for n, source in enumerate(layer.sources) if source.value},
            {"y": layer.y},
            {**constants, "p": layer.rows.reshape(-1).view(np.uint8)},
        )

    def _tile(self) -> tuple[int, int, int]:
        """Virtual threads, the dimension that is tiled and its tile.

        Dimensions inside that one are whole, those outside 1.
        """
        for threads, (split, extent) in itertools.product(THREADS, enumerate(self._extents)):
            capacity = self._depths["accumulator"] // threads
            fixed_tiles, tiles_a_step = 0, 0
            for used in self._used[:-1]:
                inner = zip(self._extents[split + 1 :], used[split + 1 :], strict=True)
                tiles = math.prod(size for size, steps in inner if steps)
                fixed_tiles += 0 if used[split] else tiles
                tiles_a_step += tiles if used[split] else 0
            most = (capacity - fixed_tiles) // tiles_a_step
            most = min(most, self._most_rows(split, threads))
            if most < 1:
                continue
            outer = math.prod(self._extents[:split])
            trips = max(-(-extent // most), min(extent, -(-PIECES // outer)))
            return threads, split, -(-extent // trips)
        raise CompileError(
            f"its smallest tile needs {len(self._used) - 1} tiles of accumulator memory,"
            f" there are {self._depths['accumulator'] // THREADS[-1]}"
        )

    def _most_rows(self, split: int, threads: int) -> int:
        """The longest tile of a dimension whose parameter rows fit, with a copy a thread."""
        used, extents, depth = self._used[-1], self._extents, self._depths["parameter"] // threads
        if math.prod(e for e, u in zip(extents, used, strict=True) if u) <= depth:
            return extents[split]
        inner = zip(extents[split + 1 :], used[split + 1 :], strict=True)
        rows = math.prod(e for e, u in inner if u)
        if used[split]:
            return depth // rows
        return extents[split] if rows <= depth else 0

    def _trips(self) -> list[int]:
        extents, split = self._extents, self._split
        return [*extents[:split], -(-extents[split] // self._size)]

    def _loops(self, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        for number, trips in reversed(list(enumerate(self._trips()))):
            if trips > 1:
                loop = For(f"d{number}_o", Extent(trips), Kind.VIRTUAL_THREAD, body, self._threads)
                body = (loop,)
        return body

    def _shape(self, used: Sequence[bool]) -> tuple[Extent, ...]:
        sizes = []
        for number, extent in enumerate(self._extents):
            if not used[number] or number < self._split:
                sizes.append(Extent(1))
            elif number == self._split:
                clipped = tiled(extent, self._size, f"d{number}_o")
                sizes.append(clipped if self._trips()[number] > 1 else Extent(extent))
            else:
                sizes.append(Extent(extent))
        return tuple(sizes)

    def _origin(self, user: int) -> tuple[Affine, ...]:
        origin = [ZERO] * len(self._extents)
        for number, trips in enumerate(self._trips()):
            if trips > 1 and self._used[user][number]:
                step = self._size if number == self._split else 1
                origin[number] = axis(f"d{number}_o", step)
        return tuple(origin)

    def _widened(self, number: int, source: Source) -> tuple[Buffer, Copy]:
        used = self._used[number]
        shape = self._shape(used)
        sizes = [e if u else 1 for e, u in zip(self._extents, used, strict=True)]
        dram = Buffer(f"x{number}", source.dtype, fixed(*sizes), Scope.DRAM)
        tile = Buffer(f"acc{number}", "int32", shape, Scope.ACCUMULATOR)
        return tile, Copy(
            whole(tile),
            Region(dram, self._origin(number), shape),
            flip=source.dtype == "uint8",
            widen=True,
            zero_point=source.zero_point,
        )

    def _compute(self, step: Step, accumulators: Sequence[Buffer]) -> Statement:
        shape = accumulators[0].shape
        loops = [(f"d{i}", extent) for i, extent in enumerate(shape) if extent.size > 1]
        operands = [
            Operand(
                accumulators[user],
                tuple(
                    axis(f"d{i}") if extent.size > 1 and self._used[user][i] else ZERO
                    for i, extent in enumerate(shape)
                ),
            )
            for user in (0, step.source)
            if user is not None
        ]
        one = Intrinsic(step.intrinsic, operands[0], tuple(operands[1:]), step.immediate)
        return nest(loops, Kind.UNROLL, (one,)) if loops else one

    def _parameters(self, outside: list[Statement], body: list[Statement]) -> Region:
        """The parameter rows of a tile: all loaded once if they fit, else with each tile."""
        user = len(self._used) - 1
        sizes = [e if u else 1 for e, u in zip(self._extents, self._used[user], strict=True)]
        dram = Buffer("p", "parameter", fixed(*sizes), Scope.DRAM)
        shape, origin = self._shape(self._used[user]), self._origin(user)
        if self._threads * math.prod(sizes) <= self._depths["parameter"]:
            held = Buffer("p_tile", "parameter", fixed(*sizes), Scope.PARAMETER)
            outside += [Allocate(held), Copy(whole(held), whole(dram))]
            return Region(held, origin, shape)
        tile = Buffer("p_tile", "parameter", shape, Scope.PARAMETER)
        body += [Allocate(tile), Copy(whole(tile), Region(dram, origin, shape))]
        return whole(tile)


def _merge(tiles: Tiles, users: Sequence[Tiles]) -> tuple[list[int], list[list[bool]]]:
    """Extents of merged dimensions, and for each user whether it steps through them."""
    extents: list[int] = []
    used: list[list[bool]] = [[] for _ in users]
    for number, extent in enumerate(tiles):
        if extent == 1:
            continue
        steps = [user[number] == extent for user in users]
        if extents and [u[-1] for u in used] == steps:
            extents[-1] *= extent
            continue
        extents.append(extent)
        for user, step in zip(used, steps, strict=True):
            user.append(step)
    if not extents:
        return [1], [[True] for _ in users]
    return extents, used
