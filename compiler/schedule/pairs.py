"""The template of products of two activations: the second one is loaded as weight tiles.

Σ (a − za)(b − zb) = Σ ab − zb Σ a − za Σ b + K za zb: the sums are products with constant
tiles, the last term is the output stage's bias.
"""

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
from tilewright.compiler.schedule.weights import split_parts
from tilewright.hw.config import Config
from tilewright.hw.errors import CompileError

Bytes = NDArray[np.uint8]

THREADS = 2


@dataclass(frozen=True, slots=True)
class Pair:
    """y[n, h, r, m] = Σ_k a[n, h, r, k] · b[n, h, k, m], less both zero points.

    `a` is a value of the graph, or constant tiles shared by all n and h.  With `rows_first` the
    rows of a and y are images, in front of their blocks of channels.  `row` is the output
    stage's, uint64[block_out].
    """

    name: str
    images: int
    planes: int
    rows: int
    depth: int
    columns: int
    rows_first: bool
    a: str
    a_dtype: str
    a_tiles: Bytes | None
    a_zero: int
    b: str
    b_dtype: str
    b_zero: int
    y: str
    y_dtype: str
    row: NDArray[np.uint64]
    zero_point: int
    low: int
    high: int


def build_pair(pair: Pair, config: Config) -> Kernel:
    """Return the kernel of a product.

    Raises:
        CompileError: sizes that do not fill tiles, several images in one, or no tile fits.
    """
    _check(pair, config)
    return _Builder(pair, config).kernel()


def _check(pair: Pair, config: Config) -> None:
    lanes = config.channel_lanes
    if config.batch > 1:
        raise CompileError(f"weight tiles do not lie in a tensor with {config.batch} images a tile")
    filled = [("columns", pair.columns, config.block_out)]
    if pair.a_tiles is None:  # constant tiles are 0 past the last term
        filled.append(("terms", pair.depth, config.block_in))
    for what, size, block in filled:
        if size % block or (size > lanes and size % lanes):
            raise CompileError(f"its {size} {what} do not fill tiles of {block}")


@dataclass(frozen=True, slots=True)
class _Span:
    """An axis of channels: blocks, tiles used of each, tiles in all."""

    blocks: int
    subs: int

    @property
    def tiles(self) -> int:
        return self.blocks * self.subs


class _Builder:
    def __init__(self, pair: Pair, config: Config) -> None:
        self._pair, self._config = pair, config
        lanes = config.channel_lanes
        self._k = _span(pair.depth, lanes, config.block_in)
        self._m = _span(pair.columns, lanes, config.block_out)
        self._shared = pair.a_tiles is not None
        self._constants: dict[str, Bytes] = {"p": pair.row.view(np.uint8)}
        self._block_tile, self._row_tile = self._tile()

    def kernel(self) -> Kernel:
        pair = self._pair
        outside: list[Statement] = []
        z = self._constant(outside, "z", -pair.b_zero, Scope.WEIGHT)
        c = self._constant(outside, "c", -pair.a_zero, Scope.INPUT)
        parameters = Buffer("p_tile", "parameter", fixed(1, 1, 1, 1, 1), Scope.PARAMETER)
        table = Buffer("p", "parameter", fixed(1, 1, 1, 1, 1), Scope.DRAM)
        outside += [Allocate(parameters), Copy(whole(parameters), whole(table))]
        weight, load_weight = self._weight()
        rows, load_rows = self._rows()
        acc, store = self._stored(parameters)
        inner: list[Statement] = [Allocate(rows), load_rows, Allocate(acc)]
        inner += [self._product("gemm", acc, rows, weight)]
        if z is not None:
            inner.append(self._product("gemm_add", acc, rows, z))
        if c is not None:
            inner.append(self._product("gemm_add", acc, c, weight))
        by_rows = self._loop("r", pair.rows, self._row_tile, (*inner, store))
        body: tuple[Statement, ...] = (Allocate(weight), load_weight, *by_rows)
        body = self._loop("m", self._m.blocks, self._block_tile, body)
        for name, trips in (("h", pair.planes), ("n", pair.images)):
            body = self._loop(name, trips, 1, body)
        inputs = {"b": pair.b} if self._shared else {"a": pair.a, "b": pair.b}
        constants = dict(self._constants)
        if pair.a_tiles is not None:
            constants["a"] = pair.a_tiles
        return Kernel(pair.name, (*outside, *body), inputs, {"y": pair.y}, constants)

    def _tile(self) -> tuple[int, int]:
        """Blocks of columns, and rows, of a tile."""
        depths = self._config.depths()
        weights = depths["weight"] - 2 * self._k.tiles
        blocks = min(
            weights // (THREADS * self._k.tiles * self._m.subs),
            depths["accumulator"] // (THREADS * self._m.subs),
            self._m.blocks,
        )
        if blocks < 1:
            raise CompileError(f"its {self._k.tiles} weight tiles a column do not fit")
        rows = min(
            (depths["input"] - 2) // (THREADS * self._k.tiles),
            depths["accumulator"] // (THREADS * self._m.subs * blocks),
            self._pair.rows,
        )
        if rows < 1:
            raise CompileError(f"its rows of {self._k.tiles} tiles do not fit")
        return blocks, rows

    def _loop(
        self, name: str, size: int, tile: int, body: tuple[Statement, ...]
    ) -> tuple[Statement, ...]:
        trips = -(-size // tile)
        if trips == 1:
            return body
        return (For(f"{name}_o", Extent(trips), Kind.VIRTUAL_THREAD, body),)

    def _outer(self, name: str, size: int, tile: int) -> tuple[Affine, Extent]:
        """The first element of a tile of an axis, and its size."""
        if size <= tile:
            return ZERO, Extent(size)
        return axis(f"{name}_o", tile), tiled(size, tile, f"{name}_o")

    def _constant(
        self, outside: list[Statement], name: str, value: int, scope: Scope
    ) -> Buffer | None:
        """Tiles full of a constant, in parts that are int8; None for 0."""
        if value == 0:
            return None
        config = self._config
        size = config.weight_tile_bytes if scope is Scope.WEIGHT else config.input_tile_bytes
        parts = split_parts(np.full(size, value, np.int64)).astype(np.int8)
        self._constants[name] = np.ascontiguousarray(parts).view(np.uint8).reshape(-1)
        tile = Buffer(f"{name}_tile", "int8", fixed(len(parts)), scope)
        dram = Buffer(name, "int8", fixed(len(parts)), Scope.DRAM)
        outside += [Allocate(tile), Copy(whole(tile), whole(dram))]
        return tile

    def _weight(self) -> tuple[Buffer, Copy]:
        """Weight tiles [.., k, .., m] of one plane; the order of k and planes is b's layout's."""
        pair, config = self._pair, self._config
        first, blocks = self._outer("m", self._m.blocks, self._block_tile)
        n, _ = self._outer("n", pair.images, 1)
        h, _ = self._outer("h", pair.planes, 1)
        limit = None if blocks.limit is None else blocks.limit * self._m.subs
        columns = Extent(blocks.size * self._m.subs, limit)
        one, depth = Extent(1), Extent(self._k.tiles)
        sizes: tuple[int, ...] = (pair.images, self._k.tiles, pair.planes, self._m.tiles)
        origin: tuple[Affine, ...] = (n, ZERO, h, first * self._m.subs)
        shape: tuple[Extent, ...] = (one, depth, one, columns)
        if config.block_in < config.channel_lanes:
            sizes = (pair.images, pair.planes, self._k.tiles, self._m.tiles)
            origin = (n, h, ZERO, first * self._m.subs)
            shape = (one, one, depth, columns)
        tile = Buffer("w_tile", "int8", shape, Scope.WEIGHT)
        dram = Buffer("b", pair.b_dtype, fixed(*sizes), Scope.DRAM)
        copy = Copy(whole(tile), Region(dram, origin, shape), flip=pair.b_dtype == "uint8")
        return tile, copy

    def _rows(self) -> tuple[Buffer, Copy]:
        pair, config = self._pair, self._config
        first, rows = self._outer("r", pair.rows, self._row_tile)
        n, _ = self._outer("n", pair.images, 1)
        h, _ = self._outer("h", pair.planes, 1)
        images, planes = (1, 1) if self._shared else (pair.images, pair.planes)
        if self._shared:
            n, h = ZERO, ZERO
        subs = config.channel_lanes // config.block_in
        sizes = (images, self._k.blocks, planes, pair.rows, subs)
        dram = Buffer("a", pair.a_dtype, fixed(*sizes), Scope.DRAM, self._strides(sizes))
        shape = (Extent(1), Extent(self._k.blocks), Extent(1), rows, Extent(self._k.subs))
        tile = Buffer("a_tile", "int8", shape, Scope.INPUT)
        source = Region(dram, (n, ZERO, h, first, ZERO), shape)
        return tile, Copy(whole(tile), source, flip=pair.a_dtype == "uint8")

    def _strides(self, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """Strides of a tensor of rows; none when it is row-major."""
        if not self._pair.rows_first:
            return ()
        _, blocks, _, rows, subs = sizes
        return (rows * blocks * subs, subs, rows * blocks * subs, blocks * subs, 1)

    def _stored(self, parameters: Buffer) -> tuple[Buffer, Store]:
        pair, config = self._pair, self._config
        first, rows = self._outer("r", pair.rows, self._row_tile)
        block, blocks = self._outer("m", self._m.blocks, self._block_tile)
        n, _ = self._outer("n", pair.images, 1)
        h, _ = self._outer("h", pair.planes, 1)
        shape = (Extent(1), blocks, Extent(1), rows, Extent(self._m.subs))
        acc = Buffer("acc", "int32", shape, Scope.ACCUMULATOR)
        subs = config.channel_lanes // config.block_out
        sizes = (pair.images, self._m.blocks, pair.planes, pair.rows, subs)
        y = Buffer("y", pair.y_dtype, fixed(*sizes), Scope.DRAM, self._strides(sizes))
        store = Store(
            Region(y, (n, block, h, first, ZERO), shape),
            whole(acc),
            whole(parameters),
            pair.zero_point,
            pair.low,
            pair.high,
        )
        return acc, store

    def _product(self, name: str, acc: Buffer, left: Buffer, right: Buffer) -> Statement:
        """One product over a tile; `left` and `right` may be the constant parts."""
        loops = [
            ("mb", acc.shape[1]),
            ("r", acc.shape[3]),
            ("os", acc.shape[4]),
            ("kb", Extent(self._k.blocks)),
            ("is", Extent(self._k.subs)),
        ]
        loops += [("part", b.shape[0]) for b in (left, right) if len(b.shape) == 1]
        loops = [(loop, extent) for loop, extent in loops if extent.size > 1]
        names = {loop for loop, _ in loops}

        def at(loop: str, factor: int = 1) -> Affine:
            return axis(loop, factor) if loop in names else ZERO

        depth = at("kb", self._k.subs) + at("is")
        columns = at("mb", self._m.subs) + at("os")
        tiles: Sequence[Affine] = (ZERO, depth, ZERO, columns)
        if self._config.block_in < self._config.channel_lanes:
            tiles = (ZERO, ZERO, depth, columns)
        source = (
            (at("part"),) if len(left.shape) == 1 else (ZERO, at("kb"), ZERO, at("r"), at("is"))
        )
        weight = (at("part"),) if len(right.shape) == 1 else tuple(tiles)
        gemm = Intrinsic(
            name,
            Operand(acc, (ZERO, at("mb"), ZERO, at("r"), at("os"))),
            (Operand(left, source), Operand(right, weight)),
        )
        return nest(loops, Kind.UNROLL, (gemm,)) if loops else gemm


def _span(size: int, lanes: int, block: int) -> _Span:
    return _Span(-(-size // lanes), -(-min(size, lanes) // block))
