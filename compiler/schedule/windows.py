"""The template of windowed layers: convolution, matrix product, pooling as loop nests.

It builds loops only; which engine does what, and every address and token, is the lowering's.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

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
from tilewright.compiler.schedule.cost import extents_of
from tilewright.compiler.schedule.tiling import Tiling
from tilewright.compiler.schedule.work import Work

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Stage:
    """What the output stage does: parameter rows, zero point and range in stored units.

    `rows` is uint64[rows, block_out]: one row for each output tile of channels, or with
    `regions` one for each region ((h low, h high), (w low, w high)) of output positions.
    Raw int32 output has no rows.
    """

    rows: NDArray[np.uint64] | None
    zero_point: int = 0
    low: int = -128
    high: int = 127
    regions: tuple[tuple[tuple[int, int], tuple[int, int]], ...] = ()


@dataclass(frozen=True, slots=True)
class Layer:
    """A windowed layer: its work, the values it reads and writes, its constants.

    `pad` is the value of the border in the int8 domain.  `weights` gives the weight tiles for
    a tiling, in the order of the kernel's weight buffer; `correction` (int32 tiles by output
    tile of channels) is added to the accumulators.
    """

    name: str
    work: Work
    x: str
    y: str
    x_dtype: str
    y_dtype: str
    pad: int
    stage: Stage
    weights: Callable[[Tiling], Bytes] | None = None
    correction: Bytes | None = None


@dataclass(slots=True)
class _Places:
    """Statements by depth: before and after the loops deeper than it."""

    before: dict[int, list[Statement]] = field(default_factory=dict)
    after: dict[int, list[Statement]] = field(default_factory=dict)

    def copy(self, depth: int, buffer: Buffer, copy: Copy) -> None:
        self.before.setdefault(depth, []).extend([Allocate(buffer), copy])


def build(layer: Layer, tiling: Tiling) -> Kernel:
    """Return the kernel of a layer with a tiling."""
    return _Builder(layer, tiling).kernel()


class _Builder:
    def __init__(self, layer: Layer, tiling: Tiling) -> None:
        self._layer, self._work, self._tiling = layer, layer.work, tiling
        self._placement = tiling.placement
        self._extents = extents_of(layer.work)
        self._places = _Places()
        self._constants: dict[str, Bytes] = {}

    def kernel(self) -> Kernel:
        x, acc = self._input(), self._accumulators()
        weight = self._weight() if self._work.accumulates else None
        self._places.before.setdefault(self._placement.output_depth, []).append(Allocate(acc))
        compute = self._compute(x, weight, acc)
        self._outputs(acc)
        return Kernel(
            self._layer.name,
            self._loops(0, compute),
            {"x": self._layer.x},
            {"y": self._layer.y},
            self._constants,
        )

    def _loops(self, depth: int, compute: tuple[Statement, ...]) -> tuple[Statement, ...]:
        before = tuple(self._places.before.get(depth, ()))
        after = tuple(self._places.after.get(depth, ()))
        if depth == len(self._placement.order):
            return (*before, *compute, *after)
        name, inner = self._placement.order[depth], self._loops(depth + 1, compute)
        if self._tiling.trips[name] > 1:
            kind = Kind.VIRTUAL_THREAD if self._placement.threads > 1 else Kind.SERIAL
            inner = (For(f"{name}_o", Extent(self._tiling.trips[name]), kind, inner),)
        return (*before, *inner, *after)

    def _outer(self, name: str, factor: int = 1) -> Affine:
        """The outer loop of an axis times its tile; nothing when it has one iteration."""
        if self._tiling.trips[name] == 1:
            return ZERO
        return axis(f"{name}_o", factor * self._tiling.sizes[name])

    def _tile(self, name: str) -> Extent:
        return tiled(self._extents[name], self._tiling.sizes[name], f"{name}_o")

    def _inner(self, name: str, extent: int, factor: int = 1) -> Affine:
        return axis(name, factor) if extent > 1 else ZERO

    def _input(self) -> Buffer:
        work, window, sizes = self._work, self._work.window, self._tiling.sizes
        held = self._placement.holds_input
        taps = window.kernel[0] if held else sizes["k"]
        rows, row_step, row_origin = self._rows(taps)
        row_origin = row_origin + (ZERO if held else self._outer("k", window.dilations[0]))
        channels = self._channels("i", work.in_blocks, held=held)
        columns = self._clipped("w", window.columns, window.strides[1])
        shape = (self._tile("n"), channels, rows, columns, Extent(work.in_subs))
        scope = Scope.INPUT if work.accumulates else Scope.ACCUMULATOR
        tile = Buffer("x_tile", "int8" if work.accumulates else "int32", shape, scope)
        sizes_dram = (work.images, work.groups * work.in_blocks, *work.in_size, work.in_subs)
        x = Buffer("x", self._layer.x_dtype, fixed(*sizes_dram), Scope.DRAM)
        channel = self._outer("g", work.in_blocks)
        origin = (
            self._outer("n"),
            channel + (ZERO if held else self._outer("i")),
            row_origin,
            self._outer("w", window.strides[1]) + -window.pads[1],
            ZERO,
        )
        copy = Copy(
            whole(tile),
            Region(x, origin, shape, (1, 1, row_step, 1, 1)),
            pad=self._layer.pad,
            flip=self._layer.x_dtype == "uint8",
            widen=not work.accumulates,
        )
        self._places.copy(self._placement.input_depth, tile, copy)
        return tile

    def _rows(self, taps: int) -> tuple[Extent, int, Affine]:
        """Rows of the input tile, the step between them, and the first row."""
        window = self._work.window
        origin = self._outer("h", window.strides[0]) + -window.pads[0]
        if taps == 1:
            return self._tile("h"), window.strides[0], origin
        return (
            self._clipped("h", lambda size: window.rows(size, taps), window.strides[0]),
            1,
            origin,
        )

    def _clipped(self, name: str, span: Callable[[int], int], stride: int) -> Extent:
        """What `span` gives for a tile of an axis, clipped like the tile itself."""
        extent, size = self._extents[name], self._tiling.sizes[name]
        if extent % size == 0:
            return Extent(span(size))
        return Extent(span(size), axis(f"{name}_o", -size * stride) + span(extent))

    def _channels(self, name: str, blocks: int, *, held: bool) -> Extent:
        """Channel blocks of a tile: all groups' in it, or a part of one group's."""
        size = blocks if held else self._tiling.sizes[name]
        if self._tiling.sizes["g"] > 1:
            groups = self._tile("g")
            limit = groups.limit * blocks if groups.limit else None
            return Extent(groups.size * blocks, limit)
        return Extent(size) if held else self._tile(name)

    def _accumulators(self) -> Buffer:
        work = self._work
        channels = self._channels("o", work.out_blocks, held=False)
        shape = (self._tile("n"), channels, self._tile("h"), self._tile("w"), Extent(work.out_subs))
        return Buffer("acc", "int32", shape, Scope.ACCUMULATOR)

    def _weight(self) -> Buffer:
        """Dimensions: i_o, k_o, group, o, out sub-tile, i, in sub-tile, part, row, column."""
        work, tiling = self._work, self._tiling
        sizes, trips = tiling.sizes, tiling.trips
        if work.shared_weights:
            full = (1, 1, 1, 1, work.out_subs, 1, work.used_subs, 1, 1, 1)
            shape, origin = fixed(*full), (ZERO,) * len(full)
        else:
            width = work.window.kernel[1]
            inner = (sizes["i"], work.used_subs, work.parts, sizes["k"], width)
            blocks = (work.groups, work.out_blocks, work.out_subs)
            full = (trips["i"], trips["k"], *blocks, *inner)
            shape, origin = fixed(*full), (ZERO,) * len(full)
            if self._placement.weight_depth:
                step = self._placement.steps_weights
                steps = (1, 1) if step else (trips["i"], trips["k"])
                tile = (self._tile("g"), self._tile("o"), Extent(work.out_subs))
                shape = (*fixed(*steps), *tile, *fixed(*inner))
                outer = [axis(f"{a}_o") if step and trips[a] > 1 else ZERO for a in ("i", "k")]
                origin = (*outer, self._outer("g"), self._outer("o"), *(ZERO,) * 6)
        dram = Buffer("w", "int8", fixed(*full), Scope.DRAM)
        tile_buffer = Buffer("w_tile", "int8", shape, Scope.WEIGHT)
        if self._placement.fills_weights:
            self._fill_weights(tile_buffer, dram)
        else:
            self._places.copy(
                self._placement.weight_depth,
                tile_buffer,
                Copy(whole(tile_buffer), Region(dram, origin, shape)),
            )
        if self._layer.weights is None:
            raise AssertionError("a layer that accumulates has weights")
        self._constants["w"] = self._layer.weights(tiling)
        return tile_buffer

    def _fill_weights(self, tile: Buffer, dram: Buffer) -> None:
        """Load the weights of each block of output channels when they are used first."""
        order = self._placement.order[: self._placement.output_depth]
        depth = 1 + max(order.index(a) for a in ("g", "o"))
        trips = self._tiling.trips
        once = [f"{a}_o" for a in order[:depth] if a not in ("g", "o") and trips[a] > 1]
        origin = (ZERO, ZERO, self._outer("g"), self._outer("o"), *(ZERO,) * 6)
        shape = (*tile.shape[:2], self._tile("g"), self._tile("o"), *tile.shape[4:])
        copy = Copy(Region(tile, origin, shape), Region(dram, origin, shape), once=tuple(once))
        self._places.before.setdefault(0, []).append(Allocate(tile))
        self._places.before.setdefault(depth, []).append(copy)

    def _weight_index(self) -> tuple[Affine, ...]:
        work, tiling = self._work, self._tiling
        subs = self._inner("os", work.out_subs), self._inner("is", work.used_subs)
        if work.shared_weights:
            return (ZERO, ZERO, ZERO, ZERO, subs[0], ZERO, subs[1], ZERO, ZERO, ZERO)
        step = self._placement.steps_weights
        outer = [axis(f"{a}_o") if not step and tiling.trips[a] > 1 else ZERO for a in ("i", "k")]
        blocks = [
            self._inner(a, tiling.sizes[a])
            + (ZERO if self._placement.weight_depth else self._outer(a))
            for a in ("g", "o")
        ]
        return (
            *outer,
            *blocks,
            subs[0],
            self._inner("i", tiling.sizes["i"]),
            subs[1],
            self._inner("part", work.parts),
            self._inner("kh", tiling.sizes["k"]),
            self._inner("kw", work.window.kernel[1]),
        )

    def _compute(self, x: Buffer, weight: Buffer | None, acc: Buffer) -> tuple[Statement, ...]:
        work, window, sizes = self._work, self._work.window, self._tiling.sizes
        held = self._placement.holds_input
        taps = window.kernel[0] if held else sizes["k"]
        one_row = taps == 1
        row = self._inner("h", sizes["h"], 1 if one_row else window.strides[0])
        row = row + self._inner("kh", sizes["k"], window.dilations[0])
        channel = self._inner("g", sizes["g"], work.in_blocks if held else sizes["i"])
        channel = channel + self._inner("i", sizes["i"])
        if held:
            row = row + self._outer("k", window.dilations[0])
            channel = channel + self._outer("i")
        column = self._inner("w", sizes["w"], window.strides[1])
        column = column + self._inner("kw", window.kernel[1], window.dilations[1])
        sub = self._inner("is" if work.accumulates else "os", work.used_subs)
        image = self._inner("n", sizes["n"])
        source = Operand(x, (image, channel, row, column, sub))
        dst = Operand(
            acc,
            (
                image,
                self._inner("g", sizes["g"], sizes["o"]) + self._inner("o", sizes["o"]),
                self._inner("h", sizes["h"]),
                self._inner("w", sizes["w"]),
                self._inner("os", work.out_subs),
            ),
        )
        loops = [(a, self._tile(a)) for a in ("n", "g", "o")]
        loops += [("os", Extent(work.out_subs)), ("h", self._tile("h")), ("w", self._tile("w"))]
        if work.accumulates:
            loops += [("i", self._tile("i")), ("is", Extent(work.used_subs))]
            loops += [("part", Extent(work.parts))]
        loops += [("kh", Extent(sizes["k"])), ("kw", Extent(window.kernel[1]))]
        loops = [(name, extent) for name, extent in loops if extent.size > 1]
        if weight is None:
            step = Intrinsic("max", dst, (source,))
        else:
            step = Intrinsic("gemm", dst, (source, Operand(weight, self._weight_index())))
        return (nest(loops, Kind.UNROLL, (step,)),) if loops else (step,)

    def _outputs(self, acc: Buffer) -> None:
        work, layer = self._work, self._layer
        after = self._places.after.setdefault(self._placement.output_depth, [])
        blocks = work.groups * work.out_blocks
        channel = self._outer("g", work.out_blocks) + self._outer("o")
        y = Buffer(
            "y",
            layer.y_dtype,
            fixed(work.images, blocks, *work.out_size, work.out_subs),
            Scope.DRAM,
        )
        origin = (self._outer("n"), channel, self._outer("h"), self._outer("w"), ZERO)
        dst = Region(y, origin, acc.shape)
        if layer.correction is not None:
            after.append(self._correct(acc, channel))
        stage = layer.stage
        if stage.rows is None:
            after.append(Store(dst, whole(acc), None))
            return
        self._constants["p"] = stage.rows.reshape(-1).view(np.uint8)
        everything = ((0, work.images), (0, blocks))
        for number, (rows, columns) in enumerate(stage.regions):
            clip = (*everything, rows, columns, (0, work.out_subs))
            parameters = self._region_parameters(number)
            after.append(
                Store(dst, whole(acc), parameters, stage.zero_point, stage.low, stage.high, clip)
            )
        if not stage.regions:
            parameters = self._channel_parameters(acc, channel)
            after.append(
                Store(dst, whole(acc), parameters, stage.zero_point, stage.low, stage.high)
            )

    def _region_parameters(self, number: int) -> Region:
        """One row a region of output positions, all loaded once."""
        shape = fixed(len(self._layer.stage.regions), 1, 1, 1, 1)
        tile = Buffer("p_tile", "parameter", shape, Scope.PARAMETER)
        if number == 0:
            dram = Buffer("p", "parameter", shape, Scope.DRAM)
            self._places.copy(0, tile, Copy(whole(tile), whole(dram)))
        return Region(tile, (ZERO + number, ZERO, ZERO, ZERO, ZERO), fixed(1, 1, 1, 1, 1))

    def _channel_parameters(self, acc: Buffer, channel: Affine) -> Region:
        """One row an output tile of channels, loaded once or with each output tile."""
        work = self._work
        shape = fixed(1, work.groups * work.out_blocks, 1, 1, work.out_subs)
        dram = Buffer("p", "parameter", shape, Scope.DRAM)
        extents = (Extent(1), acc.shape[1], Extent(1), Extent(1), acc.shape[4])
        here = (ZERO, channel, ZERO, ZERO, ZERO)
        if self._placement.parameter_depth == 0:
            tile = Buffer("p_tile", "parameter", shape, Scope.PARAMETER)
            self._places.copy(0, tile, Copy(whole(tile), whole(dram)))
            return Region(tile, here, extents)
        tile = Buffer("p_tile", "parameter", extents, Scope.PARAMETER)
        copy = Copy(whole(tile), Region(dram, here, extents))
        self._places.copy(self._placement.parameter_depth, tile, copy)
        return whole(tile)

    def _correct(self, acc: Buffer, channel: Affine) -> Statement:
        """Add one tile a block of output channels to every accumulator of it."""
        work, sizes = self._work, self._tiling.sizes
        if self._layer.correction is None:
            raise AssertionError("only called with a correction")
        self._constants["c"] = self._layer.correction
        shape = (Extent(1), acc.shape[1], Extent(1), Extent(1), acc.shape[4])
        full = fixed(1, work.groups * work.out_blocks, 1, 1, work.out_subs)
        dram = Buffer("c", "int32", full, Scope.DRAM)
        tile = Buffer("c_tile", "int32", shape, Scope.ACCUMULATOR)
        here = (ZERO, channel, ZERO, ZERO, ZERO)
        self._places.copy(
            self._placement.output_depth, tile, Copy(whole(tile), Region(dram, here, shape))
        )
        block = self._inner("g", sizes["g"], sizes["o"]) + self._inner("o", sizes["o"])
        sub = self._inner("os", work.out_subs)
        index = (
            self._inner("n", sizes["n"]),
            block,
            self._inner("h", sizes["h"]),
            self._inner("w", sizes["w"]),
            sub,
        )
        add = Intrinsic(
            "add", Operand(acc, index), (Operand(tile, (ZERO, block, ZERO, ZERO, sub)),)
        )
        loops = [(a, self._tile(a)) for a in ("n", "g", "o")]
        loops += [("os", Extent(work.out_subs)), ("h", self._tile("h")), ("w", self._tile("w"))]
        loops = [(name, extent) for name, extent in loops if extent.size > 1]
        return nest(loops, Kind.UNROLL, (add,)) if loops else add
