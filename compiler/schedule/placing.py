"""The templates of movement: Concat, Slice, Expand, Gather and what changes the layout."""

from collections.abc import Sequence

import numpy as np

from tilewright.compiler.ir.graph import Graph, Node
from tilewright.compiler.ir.layout import Layout
from tilewright.compiler.ir.loops import Kernel
from tilewright.compiler.ir.operators import stored_range
from tilewright.compiler.ir.packed import (
    INT8_OFFSET,
    alias_layout,
    int8_zero_point,
    is_unsigned,
    layout_of_value,
    zero_point_of,
)
from tilewright.compiler.schedule.attention import transpose_tiles
from tilewright.compiler.schedule.moves import Movement, Part, build_movement
from tilewright.compiler.schedule.operands import clamp_of, scale_of
from tilewright.compiler.schedule.selection import Side, Span, plan_move
from tilewright.compiler.schedule.work import num_blocks, num_images
from tilewright.hw.config import Config
from tilewright.hw.errors import CompileError
from tilewright.hw.numerics import multiplier_of_ratio, scale_ratio
from tilewright.runtime.attributes import get_int, get_ints
from tilewright.runtime.host.layout import slice_of

MAX_PIECES = 64
"""Elements of an axis that a Gather moves one by one at most."""


def concat(graph: Graph, node: Node, config: Config) -> Kernel:
    """Return the kernel of a Concat; parts of another scale are requantized."""
    y, axis = graph.type(node.outputs[0]), get_int(node.attributes, "axis")
    layout, start = layout_of_value(graph, node.outputs[0]), 0
    parts = []
    for name in node.inputs:
        if name in graph.constants:
            raise CompileError(f"its part {name!r} is a constant")
        kind = graph.type(name)
        shape = kind.static_shape
        x = Side(shape, layout_of_value(graph, name), _whole(shape))
        spans = list(_whole(shape))
        spans[axis] = Span(start, 1, shape[axis])
        start += shape[axis]
        ratio = scale_ratio(scale_of(kind), 1.0, scale_of(y))
        move = plan_move(x, Side(y.static_shape, layout, tuple(spans)), config)
        parts.append(
            Part(
                name,
                kind.dtype,
                _num_tiles(x.layout, config, config.block_in),
                move,
                -int8_zero_point(kind),
                *multiplier_of_ratio(ratio),
            )
        )
    low, high = clamp_of(node, y)
    layer = Movement(
        name=node.name,
        parts=tuple(parts),
        y=node.outputs[0],
        y_dtype=y.dtype,
        num_tiles=_num_tiles(layout, config, config.block_out),
        zero_point=zero_point_of(y),
        low=low,
        high=high,
    )
    return build_movement(layer, config)


def relayout(graph: Graph, node: Node, config: Config) -> Kernel:
    """Return the kernel of an alias whose output lies otherwise than its input."""
    shape = graph.type(node.outputs[0]).static_shape
    layout = alias_layout(graph, node, layout_of_value(graph, node.inputs[0]))
    if layout is None:
        raise CompileError("its shapes do not split into common factors")
    kernel = transpose_tiles(graph, node, layout, config)
    if kernel is not None:
        return kernel
    return _moved(graph, node, config, [(Side(shape, layout, _whole(shape)), _whole(shape))])


def cut(graph: Graph, node: Node, config: Config) -> Kernel:
    """Return the kernel of a Slice."""
    shape = graph.type(node.inputs[0]).static_shape
    starts, ends = get_ints(node.attributes, "starts"), get_ints(node.attributes, "ends")
    axes = get_ints(node.attributes, "axes", tuple(range(len(starts))))
    steps = get_ints(node.attributes, "steps", (1,) * len(starts))
    spans = list(_whole(shape))
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        chosen = range(shape[axis])[slice_of(start, end, step)]
        if step < 0 or not chosen:
            raise CompileError(f"it takes no element, or backwards, of axis {axis}")
        spans[axis] = Span(chosen.start, chosen.step, len(chosen))
    x = Side(shape, layout_of_value(graph, node.inputs[0]), tuple(spans))
    return _moved(graph, node, config, [(x, _whole(graph.type(node.outputs[0]).static_shape))])


def expand(graph: Graph, node: Node, config: Config) -> Kernel:
    """Return the kernel of an Expand."""
    x, y = graph.type(node.inputs[0]).static_shape, graph.type(node.outputs[0]).static_shape
    shape = (1,) * (len(y) - len(x)) + x
    spans = tuple(Span(0, int(a == b), b) for a, b in zip(shape, y, strict=True))
    side = Side(shape, layout_of_value(graph, node.inputs[0]), spans)
    return _moved(graph, node, config, [(side, _whole(y))])


def gather(graph: Graph, node: Node, config: Config) -> Kernel:
    """Return the kernel of a Gather with constant indices in one dimension or none."""
    if node.inputs[1] not in graph.constants:
        raise CompileError(f"its indices {node.inputs[1]!r} are not constant")
    shape = graph.type(node.inputs[0]).static_shape
    axis = get_int(node.attributes, "axis", 0) % len(shape)
    array = graph.constants[node.inputs[1]]
    indices = [int(i) % shape[axis] for i in np.atleast_1d(array).reshape(-1)]
    if array.ndim > 1 or len(indices) > MAX_PIECES:
        raise CompileError(f"its indices have shape {list(array.shape)}")
    layout = layout_of_value(graph, node.inputs[0])
    kept = (*shape[:axis], len(indices), *shape[axis + 1 :])
    pairs = []
    for place, index in enumerate(indices):
        source, target = list(_whole(shape)), list(_whole(kept))
        source[axis], target[axis] = Span(index, 1, 1), Span(place, 1, 1)
        pairs.append((Side(shape, layout, tuple(source)), tuple(target)))
    return _moved(graph, node, config, pairs, shape=kept)


def _moved(
    graph: Graph,
    node: Node,
    config: Config,
    pairs: Sequence[tuple[Side, tuple[Span, ...]]],
    shape: tuple[int, ...] = (),
) -> Kernel:
    """Stored integers, moved from each side of the input to spans of the output.

    `shape` is the output's with axes of 1 that it may leave out.
    """
    x, y = graph.type(node.inputs[0]), graph.type(node.outputs[0])
    layout = layout_of_value(graph, node.outputs[0])
    moves = [
        plan_move(side, Side(shape or y.static_shape, layout, spans), config)
        for side, spans in pairs
    ]
    parts = [
        Part(
            node.inputs[0],
            x.dtype,
            _num_tiles(layout_of_value(graph, node.inputs[0]), config, config.block_in),
            move,
        )
        for move in moves
    ]
    low, high = stored_range(y.dtype)
    layer = Movement(
        name=node.name,
        parts=tuple(parts),
        y=node.outputs[0],
        y_dtype=y.dtype,
        num_tiles=_num_tiles(layout, config, config.block_out),
        zero_point=INT8_OFFSET if is_unsigned(y) else 0,
        low=low,
        high=high,
    )
    return build_movement(layer, config)


def _whole(shape: Sequence[int]) -> tuple[Span, ...]:
    return tuple(Span(0, 1, size) for size in shape)


def _num_tiles(layout: Layout, config: Config, block: int) -> int:
    n, c, h, w = layout.shape
    blocks = num_images(n, config) * num_blocks(c, config)
    return blocks * h * w * (config.channel_lanes // block)
