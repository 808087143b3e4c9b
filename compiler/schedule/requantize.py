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
from tilewright.compiler.ir.packed import packed_shape
from tilewright.compiler.schedule.windows import Stage
from tilewright.compiler.schedule.work import num_blocks, num_images
from tilewright.hw.config import Config
from tilewright.hw.errors import CompileError

PIECES = 4
"""Tiles that a tensor is cut into at least, so that load and store overlap."""


def requantize_kernel(graph: Graph, node: Node, config: Config, stage: Stage) -> Kernel:
    """Return the kernel: input and output lie alike, so both are one row of tiles."""
    x, y = graph.type(node.inputs[0]), graph.type(node.outputs[0])
    shape = packed_shape(x)
    if shape is None or stage.rows is None:
        raise CompileError("it has more than 4 dimensions")
    images, channels, height, width = shape
    subs = config.channel_lanes // config.block_out
    tiles = num_images(images, config) * num_blocks(channels, config) * height * width * subs
    room = config.depths()["accumulator"] // 2
    tile = min(room, max(1, -(-tiles // PIECES)))
    trips = -(-tiles // tile)
    extent = tiled(tiles, tile, "t_o") if trips > 1 else Extent(tile)
    start = axis("t_o", tile) if trips > 1 else ZERO
    source = Buffer("x", x.dtype, fixed(tiles), Scope.DRAM)
    target = Buffer("y", y.dtype, fixed(tiles), Scope.DRAM)
    wide = Buffer("acc", "int32", (extent,), Scope.ACCUMULATOR)
    row = Buffer("p_tile", "parameter", fixed(1), Scope.PARAMETER)
    parameters = Buffer("p", "parameter", fixed(1), Scope.DRAM)
    body: tuple[Statement, ...] = (
        Allocate(wide),
        Copy(whole(wide), Region(source, (start,), (extent,)), flip=x.dtype == "uint8", widen=True),
        Store(
            Region(target, (start,), (extent,)),
            whole(wide),
            whole(row),
            stage.zero_point,
            stage.low,
            stage.high,
        ),
    )
    if trips > 1:
        body = (For("t_o", Extent(trips), Kind.VIRTUAL_THREAD, body),)
    return Kernel(
        node.name,
        (Allocate(row), Copy(whole(row), whole(parameters)), *body),
        {"x": node.inputs[0]},
        {"y": node.outputs[0]},
        {"p": stage.rows.reshape(-1).view("uint8")},
    )
