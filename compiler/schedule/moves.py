"""The template of movement: each output tile is a sum of input tiles times selecting weights.

The output stage requantizes by lane, so parts of different scales meet in one tile.
"""

import math
from collections.abc import Mapping, Sequence
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
from tilewright.compiler.schedule.selection import Digit, Move, Pick
from tilewright.hw.config import Config
from tilewright.hw.encoding import encode_parameters
from tilewright.hw.errors import CompileError

PIECES = 4
"""Tiles that a move is cut into at least, so that load and store overlap."""
THREADS = 2


@dataclass(frozen=True, slots=True)
class Part:
    """An input of a move: what moves where, and the output stage's constants for it."""

    value: str
    dtype: str
    num_tiles: int
    move: Move
    bias: int = 0
    multiplier: int = 1
    shift: int = 0


@dataclass(frozen=True, slots=True)
class Movement:
    """A layer of moves; `num_tiles` are the output's."""

    name: str
    parts: tuple[Part, ...]
    y: str
    y_dtype: str
    num_tiles: int
    zero_point: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class _Job:
    """Output tiles from `tiles` on, and what is picked from which part."""

    tiles: int
    picks: tuple[tuple[int, Pick], ...]


def build_movement(layer: Movement, config: Config) -> Kernel:
    """Return the kernel of a layer.

    Raises:
        CompileError: parts that meet in a tile lie differently, or a tile that does not fit.
    """
    return _Builder(layer, config).kernel()


class _Builder:
    def __init__(self, layer: Movement, config: Config) -> None:
        self._layer, self._config = layer, config
        lanes = config.channel_lanes
        self._subs = lanes // config.block_in, lanes // config.block_out
        self._jobs = _jobs(layer)
        self._rank = max(len(part.move.digits) for part in layer.parts)
        self._most = max(len(job.picks) for job in self._jobs)
        self._weights: dict[bytes, int] = {}
        self._rows: dict[bytes, int] = {}

    def kernel(self) -> Kernel:
        layer = self._layer
        body: list[Statement] = []
        shared: list[tuple[tuple[tuple[int, ...], int], list[_Job]]] = []
        for job in self._jobs:
            constants = self._constants(job)
            if not shared or shared[-1][0] != constants:
                shared.append((constants, []))
            shared[-1][1].append(job)
        for (weights, row), jobs in shared:
            body.append(self._share(weights, row, jobs))
        tables = {"w": self._weights, "p": self._rows}
        return Kernel(
            layer.name,
            tuple(body),
            {f"x{number}": part.value for number, part in enumerate(layer.parts)},
            {"y": layer.y},
            {name: np.frombuffer(b"".join(table), np.uint8) for name, table in tables.items()},
        )

    def _constants(self, job: _Job) -> tuple[tuple[int, ...], int]:
        """Indices of the weight tiles of a job's picks, and of its parameter rows."""
        config, weights = self._config, list[int]()
        lanes, block_in, block_out = config.channel_lanes, config.block_in, config.block_out
        bias, multiplier, shift = (np.zeros(lanes, np.int64) for _ in range(3))
        for number, pick in job.picks:
            part, lit = self._layer.parts[number], pick.lanes.any(axis=1)
            bias[lit], multiplier[lit], shift[lit] = part.bias, part.multiplier, part.shift
            tiles = pick.lanes.astype(np.int8).reshape(
                lanes // block_out, block_out, lanes // block_in, block_in
            )
            data = np.ascontiguousarray(tiles.transpose(0, 2, 1, 3)).tobytes()
            weights.append(self._weights.setdefault(data, len(self._weights)))
        rows = encode_parameters(bias, multiplier, shift).tobytes()
        return tuple(weights), self._rows.setdefault(rows, len(self._rows))

    def _share(self, weights: tuple[int, ...], row: int, jobs: Sequence[_Job]) -> Statement:
        """Jobs with the same constants."""
        ins, outs = self._subs
        shape = fixed(self._most, outs, ins)
        weight = Buffer("w_tile", "int8", shape, Scope.WEIGHT)
        body: list[Statement] = [Allocate(weight)]
        for position, index in enumerate(weights):
            dram = Buffer("w", "int8", fixed(index + 1, outs, ins), Scope.DRAM)
            one = fixed(1, outs, ins)
            body.append(
                Copy(
                    Region(weight, (ZERO + position, ZERO, ZERO), one),
                    Region(dram, (ZERO + index, ZERO, ZERO), one),
                )
            )
        shape = fixed(*(1,) * self._rank, outs)
        parameters = Buffer("p_tile", "parameter", shape, Scope.PARAMETER)
        rows = Buffer("p", "parameter", fixed(*(1,) * self._rank, outs * (row + 1)), Scope.DRAM)
        origin = (*(ZERO,) * self._rank, ZERO + outs * row)
        body += [Allocate(parameters), Copy(whole(parameters), Region(rows, origin, shape))]
        for job in jobs:
            body += self._tiles(job, weight, parameters)
        return For("job", Extent(1), Kind.VIRTUAL_THREAD, tuple(body))

    def _tiles(self, job: _Job, weight: Buffer, parameters: Buffer) -> tuple[Statement, ...]:
        """The tiles of a job."""
        ins, outs = self._subs
        digits = self._digits(job.picks[0][0])
        loops = _Tiling(digits, self._split(digits))
        x = Buffer("x_tile", "int8", (Extent(self._most), *loops.shape, Extent(ins)), Scope.INPUT)
        body: list[Statement] = [Allocate(x)]
        for position, (number, pick) in enumerate(job.picks):
            part = self._layer.parts[number]
            strides = (*(d.x_tiles for d in self._digits(number)), 1)
            sizes = fixed(*(d.extent for d in digits), part.num_tiles)
            dram = Buffer(f"x{number}", part.dtype, sizes, Scope.DRAM, strides)
            shape = (*loops.shape, Extent(ins))
            origin = (ZERO + position, *(ZERO,) * len(shape))
            body.append(
                Copy(
                    Region(x, origin, (Extent(1), *shape)),
                    _with_lead(dram, (*loops.origin, ZERO + pick.tiles), shape),
                    flip=part.dtype == "uint8",
                )
            )
        acc = Buffer("acc", "int32", (*loops.shape, Extent(outs)), Scope.ACCUMULATOR)
        body += [Allocate(acc), self._select(len(job.picks), loops, x, weight, acc)]
        strides = (*(d.y_tiles for d in digits), 1)
        sizes = fixed(*(d.extent for d in digits), self._layer.num_tiles)
        y = Buffer("y", self._layer.y_dtype, sizes, Scope.DRAM, strides)
        body.append(
            Store(
                Region(y, (*loops.origin, ZERO + job.tiles), acc.shape),
                whole(acc),
                whole(parameters),
                self._layer.zero_point,
                self._layer.low,
                self._layer.high,
            )
        )
        return loops.around(tuple(body))

    def _digits(self, number: int) -> tuple[Digit, ...]:
        """A part's loops, as many as any part has."""
        digits = self._layer.parts[number].move.digits
        return (*(Digit(1, 0, 0),) * (self._rank - len(digits)), *digits)

    def _select(
        self, picks: int, loops: "_Tiling", x: Buffer, weight: Buffer, acc: Buffer
    ) -> Statement:
        ins, outs = self._subs
        axes = [(f"d{i}", extent) for i, extent in enumerate(loops.shape)]
        axes += [("os", Extent(outs)), ("c", Extent(picks)), ("is", Extent(ins))]
        kept = [(name, extent) for name, extent in axes if extent.size > 1]
        names = {name for name, _ in kept}
        at: Mapping[str, Affine] = {name: axis(name) if name in names else ZERO for name, _ in axes}
        digits = tuple(at[f"d{i}"] for i in range(len(loops.shape)))
        gemm = Intrinsic(
            "gemm",
            Operand(acc, (*digits, at["os"])),
            (
                Operand(x, (at["c"], *digits, at["is"])),
                Operand(weight, (at["c"], at["os"], at["is"])),
            ),
        )
        return nest(kept, Kind.UNROLL, (gemm,)) if kept else gemm

    def _split(self, digits: Sequence[Digit]) -> tuple[int, int]:
        """The digit that is tiled and its tile; those inside are whole, those outside 1."""
        ins, outs = self._subs
        depths = self._config.depths()
        if self._most * ins * outs > depths["weight"] // THREADS:
            raise CompileError(
                f"it selects from {self._most} tiles at once, more than weight memory holds"
            )
        most = min(
            depths["input"] // THREADS // (self._most * ins),
            depths["accumulator"] // THREADS // outs,
        )
        if most < 1:
            raise CompileError(f"it selects from {self._most} tiles at once")
        pieces = -(-PIECES // len(self._jobs))
        for split, digit in enumerate(digits):
            inner = math.prod(d.extent for d in digits[split + 1 :])
            if inner > most:
                continue
            outer = math.prod(d.extent for d in digits[:split])
            trips = max(-(-digit.extent * inner // most), min(digit.extent, -(-pieces // outer)))
            trips = max(trips, -(-digit.extent // (most // inner)))
            return split, -(-digit.extent // trips)
        return 0, 1


class _Tiling:
    """Loops over tiles of digits: shape and origin of a tile."""

    def __init__(self, digits: Sequence[Digit], split: tuple[int, int]) -> None:
        at, size = split
        self._trips: list[int] = []
        shape, origin = list[Extent](), list[Affine]()
        for number, digit in enumerate(digits):
            tile = 1 if number < at else size if number == at else digit.extent
            trips = -(-digit.extent // tile)
            self._trips.append(trips)
            clipped = tiled(digit.extent, tile, f"d{number}_o")
            shape.append(clipped if trips > 1 else Extent(tile))
            origin.append(axis(f"d{number}_o", tile) if trips > 1 else ZERO)
        self.shape, self.origin = tuple(shape), tuple(origin)

    def around(self, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        """Return the body inside the loops."""
        for number, trips in reversed(list(enumerate(self._trips))):
            if trips > 1:
                body = (For(f"d{number}_o", Extent(trips), Kind.VIRTUAL_THREAD, body),)
        return body


def _with_lead(dram: Buffer, origin: tuple[Affine, ...], shape: tuple[Extent, ...]) -> Region:
    """The region of a buffer with a dimension of 1 in front."""
    lead = Buffer(dram.name, dram.dtype, (Extent(1), *dram.shape), dram.scope, (0, *dram.strides))
    return Region(lead, (ZERO, *origin), (Extent(1), *shape))


def _jobs(layer: Movement) -> list[_Job]:
    """The jobs of all parts; parts that meet in a tile are one job."""
    found: dict[int, list[tuple[int, Pick]]] = {}
    for number, part in enumerate(layer.parts):
        for job in part.move.jobs:
            found.setdefault(job.tiles, []).extend((number, pick) for pick in job.picks)
    written = []
    for tiles, picks in found.items():
        loops = {tuple((d.extent, d.y_tiles) for d in layer.parts[n].move.digits) for n, _ in picks}
        if len(loops) > 1:
            raise CompileError("its parts meet in a tile and lie differently")
        places = np.array([tiles], np.int64)
        for extent, stride in loops.pop():
            places = (places[:, None] + np.arange(extent) * stride).reshape(-1)
        written.append(places)
    everything: NDArray[np.int64] = np.concatenate(written)
    if len(np.unique(everything)) != len(everything):
        raise CompileError("its parts meet in a tile and lie differently")
    return [_Job(tiles, tuple(picks)) for tiles, picks in found.items()]
