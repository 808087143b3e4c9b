"""The template of requantization: widen, then store through the output stage."""

from tilewright.compiler.ir.graph import Graph, Node
from tilewright.compiler.ir.loops import (
    ZERO,
    Allocate,
    Buffer,
    Copy,
    Extent,
    For,
    Kernel,
    Kind,
    Region,
    Scope,
    Statement,
    Store,
    axis,
    fixed,
    tiled,
    whole,
)
from tilewright.compiler.ir.packed import int8_zero_point, zero_point_of
from tilewright.compiler.schedule.operands import clamp_of, operands_of, parameter_row, scale_of
from tilewright.compiler.schedule.work import num_blocks, num_images
from tilewright.hw.config import Config
from tilewright.hw.numerics import multiplier_of_ratio, scale_ratio

PIECES = 4
"""Tiles that a tensor is cut into at least, so that load and store overlap."""


def requantize(graph: Graph, node: Node, config: Config) -> Kernel:
    """Return the kernel of a Requantize: input and output lie alike, as one row of tiles.

    Without quantization stored values are kept, and only clamped.
    """
    operands = operands_of(graph, node)
    x, y = operands.x, operands.y
    ratio = 1.0
    if x.quantization is not None:
        ratio = scale_ratio(scale_of(x), 1.0, scale_of(y))
    bias = -int8_zero_point(x)
    images, channels, height, width = operands.x_shape
    subs = config.channel_lanes // config.block_out
    tiles = num_images(images, config) * num_blocks(channels, config) * height * width * subs
    tile = min(config.depths()["accumulator"] // 2, max(1, -(-tiles // PIECES)))
    trips = -(-tiles // tile)
    extent = tiled(tiles, tile, "t_o") if trips > 1 else Extent(tile)
    start = axis("t_o", tile) if trips > 1 else ZERO
    source = Buffer("x", x.dtype, fixed(tiles), Scope.DRAM)
    target = Buffer("y", y.dtype, fixed(tiles), Scope.DRAM)
    wide = Buffer("acc", "int32", (extent,), Scope.ACCUMULATOR)
    row = Buffer("p_tile", "parameter", fixed(1), Scope.PARAMETER)
    parameters = Buffer("p", "parameter", fixed(1), Scope.DRAM)
    low, high = clamp_of(node, y)
    body: tuple[Statement, ...] = (
        Allocate(wide),
        Copy(whole(wide), Region(source, (start,), (extent,)), flip=x.dtype == "uint8", widen=True),
        Store(
            Region(target, (start,), (extent,)),
            whole(wide),
            whole(row),
            zero_point_of(y),
            low,
            high,
        ),
    )
    if trips > 1:
        body = (For("t_o", Extent(trips), Kind.VIRTUAL_THREAD, body),)
    table = parameter_row(bias, *multiplier_of_ratio(ratio), config)
    return Kernel(
        node.name,
        (Allocate(row), Copy(whole(row), whole(parameters)), *body),
        {"x": node.inputs[0]},
        {"y": node.outputs[0]},
        {"p": table.view("uint8")},
    )
