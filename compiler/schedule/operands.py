"""What templates read off a node: its tensors, window, range and work."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.ir.graph import Graph, Node
from tilewright.compiler.ir.layout import REQUIRED
from tilewright.compiler.ir.loops import Kernel
from tilewright.compiler.ir.operators import stored_range
from tilewright.compiler.schedule import windows
from tilewright.compiler.schedule.tiling import no_tiling, search
from tilewright.compiler.schedule.weights import Grouping
from tilewright.compiler.schedule.windows import Layer
from tilewright.compiler.schedule.work import Window, Work, num_blocks, num_images
from tilewright.hw.config import Config
from tilewright.hw.encoding import encode_parameters
from tilewright.hw.errors import CompileError
from tilewright.runtime.attributes import get_int, get_ints
from tilewright.runtime.packing import Shape4
from tilewright.runtime.tensor import TensorType

Int64 = NDArray[np.int64]

MAX_PAD = 255
"""Widest pad of a LOAD, in tiles."""


@dataclass(frozen=True, slots=True)
class Operands:
    """The types of a node's first input and its output, and their packed shapes."""

    x: TensorType
    y: TensorType
    x_shape: Shape4
    y_shape: Shape4


def operands_of(graph: Graph, node: Node) -> Operands:
    """Return a node's operands.

    Raises:
        CompileError: one of them is not packed.
    """
    x, y = graph.type(node.inputs[0]), graph.type(node.outputs[0])
    layouts = REQUIRED[node.op](x.static_shape), REQUIRED[node.op](y.static_shape)
    if layouts[0] is None or layouts[1] is None:
        raise CompileError(f"{x} and {y} have too many or too few dimensions")
    return Operands(x, y, layouts[0].shape, layouts[1].shape)


def window_of(node: Node, kernel: tuple[int, ...], config: Config) -> Window:
    """Return a node's window; 1-D windows become one row high.

    Raises:
        CompileError: more than two dimensions, pads that are negative, or wider than a LOAD's
            fields.
    """
    if len(kernel) > 2:
        raise CompileError(f"its window has {len(kernel)} dimensions; at most 2 are computed")
    attributes = node.attributes
    strides, dilations = get_ints(attributes, "strides"), get_ints(attributes, "dilations")
    pads = get_ints(attributes, "pads")
    if len(kernel) == 1:
        kernel, strides, dilations = (1, *kernel), (1, *strides), (1, *dilations)
        pads = (0, pads[0], 0, pads[1])
    tiles = config.channel_lanes // config.sub_lanes
    widest = max(pads[0], pads[2], pads[1] * tiles, pads[3] * tiles)
    if min(pads) < 0 or widest > MAX_PAD:
        raise CompileError(f"its pads {list(pads)} are not within 0 and {MAX_PAD} tiles")
    return Window(
        (kernel[0], kernel[1]),
        (strides[0], strides[1]),
        (dilations[0], dilations[1]),
        (pads[0], pads[1], pads[2], pads[3]),
    )


def clamp_of(node: Node, kind: TensorType) -> tuple[int, int]:
    """Return the least and the greatest value that the output stage stores."""
    low, high = stored_range(kind.dtype)
    return get_int(node.attributes, "low", low), get_int(node.attributes, "high", high)


def scale_of(kind: TensorType) -> float:
    """Return a tensor's one scale.

    Raises:
        CompileError: it has none, or several.
    """
    if kind.quantization is None or kind.quantization.axis is not None:
        raise CompileError(f"it needs one scale for {kind}")
    return kind.quantization.scale[0]


def work_of(operands: Operands, window: Window, grouping: Grouping, config: Config) -> Work:
    """Return the work of a window that meets every input tile with one weight tile."""
    lanes = config.channel_lanes
    return Work(
        images=num_images(operands.x_shape[0], config),
        groups=grouping.count,
        in_blocks=grouping.in_blocks,
        out_blocks=grouping.out_blocks,
        in_subs=lanes // config.block_in,
        used_subs=lanes // config.block_in,
        out_subs=lanes // config.block_out,
        parts=1,
        in_size=operands.x_shape[2:],
        out_size=operands.y_shape[2:],
        window=window,
    )


def block_by_block(operands: Operands, config: Config) -> Grouping:
    """Return the grouping in which each block of channels is on its own."""
    return Grouping(1, num_blocks(operands.x_shape[1], config), 1, 1)


def parameter_row(bias: int, multiplier: int, shift: int, config: Config) -> NDArray[np.uint64]:
    """Return uint64[block_out], the same for every channel."""
    lanes = np.ones(config.block_out, np.int64)
    return encode_parameters(bias * lanes, multiplier * lanes, shift * lanes)


def scheduled(layer: Layer, config: Config) -> Kernel:
    """Return a layer's kernel with the best tiling found.

    Raises:
        CompileError: the smallest tile does not fit.
    """
    tiling = search(layer.work, config)
    if tiling is None:
        raise no_tiling(layer.work, config)
    return windows.build(layer, tiling)
