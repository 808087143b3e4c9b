"""Folding of a first convolution: window rows and columns as channels, packed so by the host."""

import numpy as np

from tilewright.compiler.ir.graph import Graph, Node
from tilewright.compiler.ir.packed import packed_shape, zero_point_of
from tilewright.compiler.schedule.operands import Int64, window_of
from tilewright.compiler.schedule.work import Window
from tilewright.hw.config import Config
from tilewright.hw.errors import CompileError
from tilewright.runtime.attributes import get_int
from tilewright.runtime.packing import Fold


def fold_of(graph: Graph, node: Node, config: Config) -> Fold | None:
    """Return the fold of a Conv's input that leaves least to multiply; None if none saves any.

    All columns of the window go into the channels, and as many rows as repeat no element: a
    divisor of the stride.

    Raises:
        CompileError: its pads are wider than a LOAD's fields.
    """
    x, y = graph.type(node.inputs[0]), graph.type(node.outputs[0])
    x_shape, y_shape = packed_shape(x), packed_shape(y)
    kernel = graph.type(node.inputs[1]).static_shape[2:]
    if get_int(node.attributes, "group", 1) != 1:
        return None
    window, channels = window_of(node, kernel, config), x_shape[1]
    height, width = window.kernel
    if window.dilations[1] != 1:
        return None

    def tiles(rows: int) -> int:
        return _input_tiles(rows * width * channels, config) * -(-height // rows)

    stride = window.strides[0] if window.dilations[0] == 1 else 1
    rows = min((r for r in range(1, stride + 1) if stride % r == 0), key=tiles)
    if tiles(rows) >= _input_tiles(channels, config) * height * width:
        return None
    top, left = window.pads[0] % rows, window.pads[1]
    return Fold(rows, width, window.strides[1], y_shape[3], top, left, zero_point_of(x))


def _input_tiles(channels: int, config: Config) -> int:
    """Input tiles that meet weights, by position."""
    if channels <= config.channel_lanes:
        return -(-channels // config.block_in)
    lanes = config.channel_lanes
    return -(-channels // lanes) * (lanes // config.block_in)


def folded_window(window: Window, fold: Fold) -> Window:
    """Return the window over the folded tensor: one column wide, every row group a row."""
    rows = fold.rows
    height = -(-window.kernel[0] // rows)
    if window.strides[0] % rows or (rows > 1 and window.dilations[0] > 1):
        raise CompileError(f"a stride of {window.strides[0]} does not step by {rows} rows")
    return Window(
        (height, 1),
        (window.strides[0] // rows, 1),
        (window.dilations[0], 1),
        ((window.pads[0] - fold.top) // rows, 0, -(-window.pads[2] // rows), 0),
    )


def folded_weights(weights: Int64, fold: Fold) -> Int64:
    """Return weights[O, C, KH, KW] for the folded tensor, zero in rows past the last."""
    outputs, channels, height, width = weights.shape
    groups = -(-height // fold.rows)
    short = groups * fold.rows - height
    full = np.pad(weights, ((0, 0), (0, 0), (0, short), (0, 0)))
    split = full.reshape(outputs, channels, groups, fold.rows, width)
    ordered = split.transpose(0, 3, 4, 1, 2)
    return ordered.reshape(outputs, fold.rows * width * channels, groups, 1)
