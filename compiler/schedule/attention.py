"""The templates that use activations as weights: products of two, and transposes by identity."""

import numpy as np

from tilewright.compiler.ir.graph import Graph, Node
from tilewright.compiler.ir.layout import Layout, packed_axes, weights_layout
from tilewright.compiler.ir.loops import Kernel
from tilewright.compiler.ir.operators import stored_range
from tilewright.compiler.ir.packed import (
    INT8_OFFSET,
    int8_zero_point,
    is_unsigned,
    layout_of_value,
    lies_as,
    zero_point_of,
)
from tilewright.compiler.schedule.operands import clamp_of, parameter_row, scale_of
from tilewright.compiler.schedule.pairs import Pair, build_pair
from tilewright.hw.config import Config
from tilewright.hw.errors import CompileError
from tilewright.hw.numerics import multiplier_of_ratio, scale_ratio
from tilewright.runtime.packing import Packing

LARGEST_DEPTH = (1 << 31) // (255 * 255 + 128 * 128)
"""Terms of a sum that stay within the accumulator, zero points included."""


def activation_product(graph: Graph, node: Node, config: Config) -> Kernel:
    """Return the kernel of a MatMul of two activations of the same rank and leading axes."""
    a, b, y = (graph.type(n) for n in (node.inputs[0], node.inputs[1], node.outputs[0]))
    a_shape, b_shape = a.static_shape, b.static_shape
    if len(node.inputs) > 2 and node.inputs[2]:
        raise CompileError("it adds a bias to a product of two activations")
    if len(a_shape) < 2 or a_shape[:-2] != b_shape[:-2]:
        raise CompileError(f"it broadcasts {a} and {b}")
    if a_shape[-1] > LARGEST_DEPTH:
        raise CompileError(f"it sums {a_shape[-1]} products, past the accumulator's 32 bits")
    layout = weights_layout(b_shape, config)
    if layout is None or not lies_as(graph, node.inputs[1], layout, config):
        raise CompileError(f"{node.inputs[1]!r} does not lie in weight tiles")
    a_zero, b_zero = int8_zero_point(a), int8_zero_point(b)
    bias = a_shape[-1] * a_zero * b_zero
    ratio = scale_ratio(scale_of(a), scale_of(b), scale_of(y))
    low, high = clamp_of(node, y)
    rank = len(a_shape)
    pair = Pair(
        name=node.name,
        images=a_shape[0] if rank > 2 else 1,
        planes=int(np.prod(a_shape[1:-2], dtype=np.int64)) if rank > 2 else 1,
        rows=a_shape[-2],
        depth=a_shape[-1],
        columns=b_shape[-1],
        rows_first=rank == 2,
        a=node.inputs[0],
        a_dtype=a.dtype,
        a_tiles=None,
        a_zero=a_zero,
        b=node.inputs[1],
        b_dtype=b.dtype,
        b_zero=b_zero,
        y=node.outputs[0],
        y_dtype=y.dtype,
        row=parameter_row(bias, *multiplier_of_ratio(ratio), config),
        zero_point=zero_point_of(y),
        low=low,
        high=high,
    )
    return build_pair(pair, config)


def transpose_tiles(graph: Graph, node: Node, source: Layout, config: Config) -> Kernel | None:
    """Return the kernel that exchanges channels and columns of a tensor; None for other moves.

    `source` is how the input lies, over the output's shape.  The input's columns are rows of
    weights, which identity vectors pick the elements of.
    """
    y = graph.type(node.outputs[0])
    target = layout_of_value(graph, node.outputs[0])
    n, c, h, w = target.groups
    swapped = Layout(target.factors, (n, w, h, c))
    if packed_axes(swapped, config) != packed_axes(source, config):
        return None
    if config.block_in < config.channel_lanes:
        return None
    images, columns, planes, depth = target.shape
    eye = np.eye(depth, dtype=np.int8)[None, :, None, :]
    tiles = Packing.of((1, depth, 1, depth), "int8", config).pack(eye)
    low, high = stored_range(y.dtype)
    pair = Pair(
        name=node.name,
        images=images,
        planes=planes,
        rows=depth,
        depth=depth,
        columns=columns,
        rows_first=False,
        a="",
        a_dtype="int8",
        a_tiles=tiles,
        a_zero=0,
        b=node.inputs[0],
        b_dtype=y.dtype,
        b_zero=0,
        y=node.outputs[0],
        y_dtype=y.dtype,
        row=parameter_row(0, 1, 0, config),
        zero_point=INT8_OFFSET if is_unsigned(y) else 0,
        low=low,
        high=high,
    )
    try:
        return build_pair(pair, config)
    except CompileError:
        return None
