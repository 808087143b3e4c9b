"""The templates of element-wise arithmetic: Add, Sub, Mul and Requantize."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.ir.graph import Graph, Node
from tilewright.compiler.ir.layout import C, H, Layout, N, W, factors_of_axes, without_axes
from tilewright.compiler.ir.loops import Kernel
from tilewright.compiler.ir.packed import (
    int8_zero_point,
    layout_of_value,
    lies_as,
    zero_point_of,
)
from tilewright.compiler.schedule.elementwise import (
    Elementwise,
    Source,
    Step,
    Tiles,
    build_elementwise,
)
from tilewright.compiler.schedule.operands import Int64, clamp_of, parameter_row, scale_of
from tilewright.compiler.schedule.work import num_blocks, num_images
from tilewright.hw.config import Config
from tilewright.hw.encoding import encode_parameters
from tilewright.hw.errors import CompileError
from tilewright.hw.numerics import add_multipliers, multiplier_of_ratio, scale_ratio
from tilewright.runtime.packing import Packing
from tilewright.runtime.tensor import TensorType

Rows = NDArray[np.uint64]


def requantize(graph: Graph, node: Node, config: Config) -> Kernel:
    """Return the kernel of a Requantize.

    Without quantization stored values are kept, and only clamped.
    """
    x, y = graph.type(node.inputs[0]), graph.type(node.outputs[0])
    ratio = 1.0
    if x.quantization is not None:
        ratio = scale_ratio(scale_of(x), 1.0, scale_of(y))
    operands = _Operands(graph, node, config)
    rows = parameter_row(0, *multiplier_of_ratio(ratio), config)[None]
    return operands.kernel([operands.source(0)], (), rows)


def signed_sum(graph: Graph, node: Node, config: Config) -> Kernel:
    """Return the kernel of an Add or Sub; a constant by channel becomes the output stage's bias."""
    operands = _Operands(graph, node, config)
    scales = [scale_of(graph.type(name)) for name in node.inputs]
    ma, mb, shift = add_multipliers(scales[0], scales[1], scale_of(graph.type(node.outputs[0])))
    factors = [ma, -mb if node.op == "Sub" else mb]
    for constant in (0, 1):
        by_channel = operands.by_channel(constant)
        if by_channel is not None:
            rows = _bias_rows(by_channel * factors[constant], shift, config)
            other = 1 - constant
            scaled = Step("scale", immediate=factors[other])
            return operands.kernel([operands.source(other)], (scaled,), rows)
    first, second = operands.ordered()
    steps = (
        Step("scale", immediate=factors[first]),
        Step("scale_add", 1, immediate=factors[second]),
    )
    rows = parameter_row(0, 1, shift, config)[None]
    return operands.kernel([operands.source(first), operands.source(second)], steps, rows)


def product(graph: Graph, node: Node, config: Config) -> Kernel:
    """Return the kernel of a Mul."""
    operands = _Operands(graph, node, config)
    scales = [scale_of(graph.type(name)) for name in node.inputs]
    ratio = scale_ratio(scales[0], scales[1], scale_of(graph.type(node.outputs[0])))
    rows = parameter_row(0, *multiplier_of_ratio(ratio), config)[None]
    for constant in (0, 1):
        by_channel = operands.by_channel(constant)
        if by_channel is not None and by_channel.size == 1:
            scaled = Step("scale", immediate=int(by_channel[0]))
            return operands.kernel([operands.source(1 - constant)], (scaled,), rows)
    first, second = operands.ordered()
    sources = [operands.source(first), operands.source(second)]
    return operands.kernel(sources, (Step("multiply", 1),), rows)


class _Operands:
    """The operands of a node as they lie beside its output."""

    def __init__(self, graph: Graph, node: Node, config: Config) -> None:
        self._graph, self._node, self._config = graph, node, config
        self._y = graph.type(node.outputs[0])
        self._shape = self._y.static_shape
        self._layout = layout_of_value(graph, node.outputs[0])
        for name in node.inputs:
            kind = graph.type(name)
            if kind.dtype not in ("int8", "uint8"):
                raise CompileError(f"{name!r} is {kind.dtype}; the machine reads int8 and uint8")

    def kernel(self, sources: list[Source], steps: tuple[Step, ...], rows: Rows) -> Kernel:
        """Return the kernel that stores the first source's accumulators after the steps."""
        node, y = self._node, self._y
        if sources[0].tiles != _tiles(self._layout.shape, self._config):
            raise CompileError("no operand of it has the shape of its output")
        low, high = clamp_of(node, y)
        layer = Elementwise(
            name=node.name,
            sources=tuple(sources),
            steps=steps,
            y=node.outputs[0],
            y_dtype=y.dtype,
            rows=rows,
            zero_point=zero_point_of(y),
            low=low,
            high=high,
        )
        return build_elementwise(layer, self._config)

    def ordered(self) -> tuple[int, int]:
        """Return the operand that has the output's shape, and the other one."""
        full = [self.source(i).tiles == _tiles(self._layout.shape, self._config) for i in (0, 1)]
        return (0, 1) if full[0] else (1, 0)

    def by_channel(self, index: int) -> Int64 | None:
        """Return a constant less its zero point, one value or one a channel; None for others."""
        name = self._node.inputs[index]
        if name not in self._graph.constants:
            return None
        values = self._packed_constant(name, self._part(name))
        n, c, h, w = values.shape
        if (n, h, w) != (1, 1, 1):
            return None
        if c != 1 or self._layout.shape[C] == 1:
            return values.reshape(c) - zero_point_of(self._graph.type(name))
        return values.reshape(1) - zero_point_of(self._graph.type(name))

    def source(self, index: int) -> Source:
        """Return an operand: a value of the graph, or a constant in the packed layout."""
        name, config = self._node.inputs[index], self._config
        kind, part = self._graph.type(name), self._part(name)
        empty = Source(kind.dtype, (), int8_zero_point(kind))
        if name in self._graph.constants:
            values = self._packed_constant(name, part)
            n, _, h, w = values.shape
            shape = (config.batch if n == 1 else n, self._layout.shape[C], h, w)
            spread = np.broadcast_to(values, shape).astype(kind.dtype)
            data = Packing.of(shape, kind.dtype, config).pack(spread)
            return replace(empty, tiles=_tiles(shape, config), data=data)
        if self._is_broadcast(part, C) or (config.batch > 1 and self._is_broadcast(part, N)):
            raise CompileError(f"{name!r} is broadcast inside a tile")
        if not lies_as(self._graph, name, part, config):
            raise CompileError(f"{name!r} does not lie like the output")
        return replace(empty, tiles=_tiles(part.shape, config), value=name)

    def _part(self, name: str) -> Layout:
        """The output's layout without the axes along which an operand is broadcast."""
        kind = self._graph.type(name)
        aligned = self._aligned(kind)
        dropped = [i for i, size in enumerate(aligned) if size != self._shape[i]]
        factors = factors_of_axes(self._layout, self._shape)
        gone = {i for axis in dropped for i in factors[axis]}
        for group in (N, C, H, W):
            members = set(self._layout.groups[group])
            if members & gone and not members <= gone:
                raise CompileError(f"{name!r} is broadcast along a part of a packed dimension")
        return without_axes(self._layout, self._shape, dropped)

    def _aligned(self, kind: TensorType) -> tuple[int, ...]:
        shape = kind.static_shape
        return (1,) * (len(self._shape) - len(shape)) + shape

    def _is_broadcast(self, part: Layout, group: int) -> bool:
        return part.shape[group] != self._layout.shape[group]

    def _packed_constant(self, name: str, part: Layout) -> Int64:
        """A constant as (N, C, H, W), with 1 where it is broadcast."""
        array = self._graph.constants[name].astype(np.int64)
        return array.reshape(part.factors).transpose(part.order).reshape(part.shape)


def _tiles(shape: tuple[int, ...], config: Config) -> Tiles:
    n, c, h, w = shape
    subs = config.channel_lanes // config.block_out
    return num_images(n, config), num_blocks(c, config), h, w, subs


def _bias_rows(bias: Int64, shift: int, config: Config) -> Rows:
    """One row for all channels, or one a tile of channels."""
    if bias.size == 1:
        return parameter_row(int(bias[0]), 1, shift, config)[None]
    subs = config.channel_lanes // config.block_out
    table = np.zeros(num_blocks(bias.size, config) * subs * config.block_out, np.uint64)
    ones = np.ones(bias.size, np.int64)
    table[: bias.size] = encode_parameters(bias, ones, shift * ones)
    return table.reshape(-1, config.block_out)
