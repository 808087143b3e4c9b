"""The templates of pooling: averages as products with identity weights, maxima on the ALU."""

import itertools
from dataclasses import replace
from fractions import Fraction

import numpy as np

from tilewright.compiler.ir.graph import Graph, Node
from tilewright.compiler.ir.layout import H, W, factors_of_axes, without_axes
from tilewright.compiler.ir.loops import Kernel
from tilewright.compiler.ir.packed import (
    INT8_OFFSET,
    int8_zero_point,
    is_unsigned,
    layout_of_value,
    lies_as,
    zero_point_of,
)
from tilewright.compiler.schedule.operands import (
    Operands,
    block_by_block,
    clamp_of,
    operands_of,
    parameter_row,
    scale_of,
    scheduled,
    window_of,
    work_of,
)
from tilewright.compiler.schedule.weights import identity_tiles
from tilewright.compiler.schedule.windows import Layer, Stage
from tilewright.compiler.schedule.work import Window
from tilewright.hw.config import Config
from tilewright.hw.errors import CompileError
from tilewright.hw.numerics import multiplier_of_ratio
from tilewright.runtime.attributes import get_int, get_ints

Span = tuple[int, int]


def average_pool(graph: Graph, node: Node, config: Config) -> Kernel:
    """Return the kernel of an AveragePool.

    Pads are the zero point, so sums are right everywhere; where pads do not count, positions
    whose windows have as many taps inside the input make a region with its own multiplier.
    """
    operands = operands_of(graph, node)
    window = window_of(node, get_ints(node.attributes, "kernel_shape"), config)
    taps = window.kernel[0] * window.kernel[1]
    height, width = operands.y_shape[2:]
    if get_int(node.attributes, "count_include_pad", 0) or not any(window.pads):
        regions = {((0, height), (0, width)): taps}
    else:
        rows = _runs(operands.x_shape[2], height, window, 0)
        columns = _runs(operands.x_shape[3], width, window, 1)
        regions = {(r, c): rows[r] * columns[c] for r, c in itertools.product(rows, columns)}
    if 0 in regions.values():
        raise CompileError("a window of it lies in the padding alone")
    return _averages(node, config, operands, window, regions)


def mean(graph: Graph, node: Node, config: Config) -> Kernel:
    """Return the kernel of a ReduceMean over all rows, all columns, or both."""
    x, y = graph.type(node.inputs[0]), graph.type(node.outputs[0])
    shape, layout = x.static_shape, layout_of_value(graph, node.inputs[0])
    axes = [a % len(shape) for a in get_ints(node.attributes, "axes", tuple(range(len(shape))))]
    parts = factors_of_axes(layout, shape)
    reduced = {factor for a in axes for factor in parts[a]}
    sizes = [1, 1]
    for side, group in enumerate((H, W)):
        members = set(layout.groups[group])
        if members and members <= reduced:
            sizes[side] = layout.shape[group]
            reduced -= members
    if reduced:
        raise CompileError(f"it reduces axes {axes}, which are not whole rows or columns")
    kept = without_axes(layout, shape, axes)
    if not lies_as(graph, node.outputs[0], kept, config):
        raise CompileError("its output does not lie like its input")
    operands = Operands(x, y, layout.shape, kept.shape)
    everywhere = ((0, kept.shape[H]), (0, kept.shape[W]))
    window = Window((sizes[0], sizes[1]))
    regions = {everywhere: sizes[0] * sizes[1]}
    return _averages(node, config, operands, window, regions)


def _averages(
    node: Node,
    config: Config,
    operands: Operands,
    window: Window,
    regions: dict[tuple[Span, Span], int],
) -> Kernel:
    """Sums of windows, divided by the count of the region of output positions."""
    zero_point, taps = int8_zero_point(operands.x), window.kernel[0] * window.kernel[1]
    x_scale, y_scale = Fraction(scale_of(operands.x)), Fraction(scale_of(operands.y))
    pairs = [multiplier_of_ratio(float(x_scale / (y_scale * count))) for count in regions.values()]
    bias = -zero_point * taps
    table = np.stack([parameter_row(bias, *pair, config) for pair in pairs])
    work = replace(
        work_of(operands, window, block_by_block(operands, config), config),
        shared_weights=True,
        regions=len(regions),
    )
    layer = Layer(
        name=node.name,
        work=work,
        x=node.inputs[0],
        y=node.outputs[0],
        x_dtype=operands.x.dtype,
        y_dtype=operands.y.dtype,
        pad=zero_point,
        stage=Stage(table, zero_point_of(operands.y), *clamp_of(node, operands.y), tuple(regions)),
        weights=lambda _: identity_tiles(config),
    )
    return scheduled(layer, config)


def _runs(size: int, positions: int, window: Window, side: int) -> dict[Span, int]:
    """Spans of output positions whose windows have the same number of taps in the input."""
    stride, pad = window.strides[side], window.pads[side]
    taps = [tap * window.dilations[side] - pad for tap in range(window.kernel[side])]
    counts = [sum(0 <= p * stride + tap < size for tap in taps) for p in range(positions)]
    spans: dict[Span, int] = {}
    first = 0
    for count, run in itertools.groupby(counts):
        length = len(list(run))
        spans[first, first + length] = count
        first += length
    return spans


def max_pool(graph: Graph, node: Node, config: Config) -> Kernel:
    """Return the kernel of a MaxPool; pads are the least value."""
    operands = operands_of(graph, node)
    window = window_of(node, get_ints(node.attributes, "kernel_shape"), config)
    subs = config.channel_lanes // config.block_out
    work = replace(
        work_of(operands, window, block_by_block(operands, config), config),
        in_subs=subs,
        used_subs=subs,
        accumulates=False,
        regions=1,
    )
    everywhere = (((0, work.out_size[0]), (0, work.out_size[1])),)
    layer = Layer(
        name=node.name,
        work=work,
        x=node.inputs[0],
        y=node.outputs[0],
        x_dtype=operands.x.dtype,
        y_dtype=operands.y.dtype,
        pad=-INT8_OFFSET,
        stage=Stage(
            parameter_row(0, 1, 0, config)[None],
            INT8_OFFSET if is_unsigned(operands.y) else 0,
            *clamp_of(node, operands.y),
            everywhere,
        ),
    )
    return scheduled(layer, config)
