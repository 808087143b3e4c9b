"""Operator templates: an operator of the graph as a kernel, or the reason why it has none."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.ir.graph import Graph, Node
from tilewright.compiler.ir.loops import Declined, Kernel
from tilewright.compiler.ir.operators import stored_range
from tilewright.compiler.ir.packed import (
    INT8_OFFSET,
    int8_zero_point,
    is_unsigned,
    packed_shape,
    zero_point_of,
)
from tilewright.compiler.schedule import windows
from tilewright.compiler.schedule.requantize import requantize_kernel
from tilewright.compiler.schedule.tiling import Tiling, no_tiling, search
from tilewright.compiler.schedule.weights import (
    Grouping,
    grouping_of,
    identity_tiles,
    split_parts,
    used_subs,
    weight_tiles,
)
from tilewright.compiler.schedule.windows import Layer, Stage
from tilewright.compiler.schedule.work import Window, Work, num_blocks, num_images
from tilewright.hw.config import Config
from tilewright.hw.encoding import encode_parameters
from tilewright.hw.errors import CompileError
from tilewright.hw.numerics import multiplier_of_ratio, multipliers_of_ratios, scale_ratio
from tilewright.runtime.attributes import get_int, get_ints
from tilewright.runtime.tensor import TensorType

Int64 = NDArray[np.int64]

MAX_PAD = 255
INT32_LIMIT = 1 << 31
MAX_MAGNITUDE = 128
"""Largest magnitude of an int8 operand."""


def build_kernel(graph: Graph, node: Node, config: Config) -> Kernel | Declined:
    """Return the kernel of a node, scheduled for a config, or why there is none."""
    problem = _problem(graph, node)
    if problem:
        return Declined(problem)
    try:
        return TEMPLATES[node.op](graph, node, config)
    except CompileError as error:
        return Declined(str(error))


def _problem(graph: Graph, node: Node) -> str | None:
    """What is wrong with a node's operator or tensors for every config, if anything."""
    if node.op not in TEMPLATES:
        return f"the accelerator has no {node.op}"
    for name in (node.inputs[0], node.outputs[0]):
        kind = graph.type(name)
        if kind.dtype not in ("int8", "uint8", "int32"):
            return f"{name!r} is {kind.dtype}; the accelerator computes on int8 and uint8"
        if packed_shape(kind) is None:
            return f"{name!r} has {len(kind.shape)} dimensions; at most 4 are packed"
    if graph.type(node.inputs[0]).dtype == "int32":
        return f"{node.inputs[0]!r} is int32; the accelerator reads int8 and uint8"
    return "its input is a constant" if node.inputs[0] in graph.constants else None


def _window(node: Node, kernel: tuple[int, ...], config: Config) -> Window:
    attributes = node.attributes
    strides, dilations = get_ints(attributes, "strides"), get_ints(attributes, "dilations")
    pads = get_ints(attributes, "pads")
    if len(kernel) == 1:
        kernel, strides, dilations = (1, *kernel), (1, *strides), (1, *dilations)
        pads = (0, pads[0], 0, pads[1])
    window = Window(
        (kernel[0], kernel[1]),
        (strides[0], strides[1]),
        (dilations[0], dilations[1]),
        (pads[0], pads[1], pads[2], pads[3]),
    )
    return check_window(window, config)


def check_window(window: Window, config: Config) -> Window:
    """Return the window if a LOAD can pad it.

    Raises:
        CompileError: pads that are negative, or wider than a LOAD's fields.
    """
    tiles = config.channel_lanes // min(config.block_in, config.block_out)
    widest = max(window.pads[1], window.pads[3]) * tiles
    if min(window.pads) < 0 or max(widest, window.pads[0], window.pads[2]) > MAX_PAD:
        raise CompileError(f"its pads {list(window.pads)} are not within 0 and {MAX_PAD} tiles")
    return window


def _clamp(node: Node, kind: TensorType) -> tuple[int, int]:
    low, high = stored_range(kind.dtype)
    return get_int(node.attributes, "low", low), get_int(node.attributes, "high", high)


def _weights(graph: Graph, node: Node) -> tuple[Int64, tuple[float, ...]]:
    """Weights less their zero point, channels first, and the scales."""
    name = node.inputs[1]
    if name not in graph.constants:
        raise CompileError(f"its second operand {name!r} is not a constant")
    kind, array = graph.type(name), graph.constants[name].astype(np.int64)
    if kind.dtype not in ("int8", "uint8"):
        raise CompileError(f"its weights are {kind.dtype}, not int8 or uint8")
    q = kind.quantization
    if q is not None:
        shape = [1] * array.ndim
        if q.axis is not None:
            shape[q.axis] = -1
        array = array - np.array(q.zero_point, np.int64).reshape(shape)
    return array, q.scale if q else (1.0,)


def _convolution(graph: Graph, node: Node, config: Config) -> Kernel:
    weights, scales = _weights(graph, node)
    if weights.ndim == 3:
        weights = weights[:, :, None, :]
    window = _window(node, weights.shape[2:], config)
    groups = get_int(node.attributes, "group", 1)
    return _products(graph, node, config, weights, scales, window, groups)


def _matrix_product(graph: Graph, node: Node, config: Config) -> Kernel:
    weights, scales = _weights(graph, node)
    if len(graph.type(node.inputs[0]).shape) != 2 or weights.ndim != 2:
        raise CompileError("only products of two matrices are offloaded")
    return _products(graph, node, config, weights.T[:, :, None, None], scales, Window((1, 1)), 1)


def _products(
    graph: Graph,
    node: Node,
    config: Config,
    weights: Int64,
    scales: tuple[float, ...],
    window: Window,
    groups: int,
) -> Kernel:
    """A convolution; weights are [O, I / groups, KH, KW] less their zero point."""
    kinds = graph.type(node.inputs[0]), graph.type(node.outputs[0])
    outputs, depth = weights.shape[:2]
    parts = split_parts(weights)
    grouping = grouping_of(groups, depth, outputs // groups, config)
    used = used_subs(groups * depth if grouping.count == 1 else config.channel_lanes, config)
    work = _work(kinds, window, config, grouping, parts=len(parts), used=used)
    bias = _bias(graph, node, weights, int8_zero_point(kinds[0]))
    rows = work.groups * work.out_blocks * work.out_subs
    correction = None
    if kinds[1].dtype == "int32":
        stage = Stage(None)
        if bias.any():
            correction = _accumulator_tiles(bias, rows, config)
    else:
        y_scale = _scale(kinds[1])
        ratios = [scale_ratio(_scale(kinds[0]), scale, y_scale) for scale in scales]
        multiplier, shift = multipliers_of_ratios(ratios)
        multiplier, shift = (np.broadcast_to(v, (outputs,)) for v in (multiplier, shift))
        low, high = _clamp(node, kinds[1])
        table = _parameter_rows(bias, multiplier, shift, rows, config)
        stage = Stage(table, zero_point_of(kinds[1]), low, high)
    layer = Layer(
        node.name,
        work,
        node.inputs[0],
        node.outputs[0],
        kinds[0].dtype,
        kinds[1].dtype,
        int8_zero_point(kinds[0]),
        stage,
        lambda tiling: weight_tiles(parts, groups, grouping, tiling, config),
        correction,
    )
    return windows.build(layer, _search(work, config))


def _search(work: Work, config: Config) -> Tiling:
    tiling = search(work, config)
    if tiling is None:
        raise no_tiling(work, config)
    return tiling


def _scale(kind: TensorType) -> float:
    if kind.quantization is None or kind.quantization.axis is not None:
        raise CompileError(f"it needs one scale for {kind}")
    return kind.quantization.scale[0]


def _work(
    kinds: tuple[TensorType, TensorType],
    window: Window,
    config: Config,
    grouping: Grouping,
    *,
    parts: int = 1,
    used: int,
) -> Work:
    x, y = packed_shape(kinds[0]), packed_shape(kinds[1])
    if x is None or y is None:
        raise CompileError("it has more than 4 dimensions")
    lanes = config.channel_lanes
    return Work(
        images=num_images(x[0], config),
        groups=grouping.count,
        in_blocks=grouping.in_blocks,
        out_blocks=grouping.out_blocks,
        in_subs=lanes // config.block_in,
        used_subs=used,
        out_subs=lanes // config.block_out,
        parts=parts,
        in_size=(x[2], x[3]),
        out_size=(y[2], y[3]),
        window=window,
    )


def _bias(graph: Graph, node: Node, weights: Int64, zero_point: int) -> Int64:
    """The bias less what the input's zero point adds; proves that no sum leaves int32."""
    bias: Int64 = np.zeros(len(weights), np.int64)
    if len(node.inputs) > 2 and node.inputs[2]:
        if node.inputs[2] not in graph.constants:
            raise CompileError(f"its bias {node.inputs[2]!r} is not a constant")
        bias = bias + graph.constants[node.inputs[2]].astype(np.int64).reshape(-1)
    flat = weights.reshape(len(weights), -1)
    bias = bias - zero_point * flat.sum(axis=1)
    largest = MAX_MAGNITUDE * int(np.abs(flat).sum(axis=1).max())
    if largest >= INT32_LIMIT:
        raise CompileError(f"its sums reach {largest}, past the accumulator's 32 bits")
    if np.abs(bias).max() >= INT32_LIMIT:
        raise CompileError(f"its bias with the input's zero point reaches {np.abs(bias).max()}")
    return bias


def _parameter_rows(
    bias: Int64, multiplier: Int64, shift: Int64, rows: int, config: Config
) -> NDArray[np.uint64]:
    table = np.zeros(rows * config.block_out, np.uint64)
    table[: len(bias)] = encode_parameters(bias, multiplier, shift)
    return table.reshape(rows, config.block_out)


def _accumulator_tiles(values: Int64, rows: int, config: Config) -> NDArray[np.uint8]:
    """One int32 tile a row of channels, the same for every image of the batch."""
    table = np.zeros(rows * config.block_out, np.int32)
    table[: len(values)] = values
    sub, batch = config.sub_lanes, config.batch
    tiles = table.reshape(rows, config.block_out // sub, 1, sub).repeat(batch, axis=2)
    return np.ascontiguousarray(tiles).view(np.uint8).reshape(-1)


def _per_block(kinds: tuple[TensorType, TensorType], config: Config) -> Grouping:
    shape = packed_shape(kinds[0])
    if shape is None:
        raise CompileError("it has more than 4 dimensions")
    return Grouping(1, num_blocks(shape[1], config), 1, 1)


def _average_pool(graph: Graph, node: Node, config: Config) -> Kernel:
    kinds = graph.type(node.inputs[0]), graph.type(node.outputs[0])
    window = _window(node, get_ints(node.attributes, "kernel_shape"), config)
    subs = config.channel_lanes // config.block_in
    work = _with_shared_weights(_work(kinds, window, config, _per_block(kinds, config), used=subs))
    zero_point = int8_zero_point(kinds[0])
    taps = window.kernel[0] * window.kernel[1]
    include = get_int(node.attributes, "count_include_pad", 0) or not any(window.pads)
    heights = [(taps_h, span) for taps_h, span in _runs(work, window, 0)]
    widths = [(taps_w, span) for taps_w, span in _runs(work, window, 1)]
    regions, counts = [], []
    if include:
        regions, counts = [((0, work.out_size[0]), (0, work.out_size[1]))], [taps]
    else:
        for taps_h, rows in heights:
            for taps_w, columns in widths:
                regions.append((rows, columns))
                counts.append(taps_h * taps_w)
    if 0 in counts:
        raise CompileError("a window lies in the padding alone")
    x_scale, y_scale = Fraction(_scale(kinds[0])), Fraction(_scale(kinds[1]))
    pairs = [multiplier_of_ratio(float(x_scale / (y_scale * count))) for count in counts]
    lanes = np.ones(config.block_out, np.int64)
    bias = -zero_point * taps * lanes
    table = np.stack([encode_parameters(bias, m * lanes, s * lanes) for m, s in pairs])
    low, high = _clamp(node, kinds[1])
    stage = Stage(table, zero_point_of(kinds[1]), low, high, tuple(regions))
    layer = Layer(
        node.name,
        work,
        node.inputs[0],
        node.outputs[0],
        kinds[0].dtype,
        kinds[1].dtype,
        zero_point,
        stage,
        lambda _: identity_tiles(config),
    )
    return windows.build(layer, _search(work, config))


def _with_shared_weights(work: Work) -> Work:
    return Work(
        **{name: getattr(work, name) for name in work.__slots__ if name != "shared_weights"},
        shared_weights=True,
    )


def _runs(work: Work, window: Window, side: int) -> list[tuple[int, tuple[int, int]]]:
    """Runs of output positions whose windows have the same number of taps inside the input."""
    size, kernel = work.in_size[side], window.kernel[side]
    counts = []
    for position in range(work.out_size[side]):
        start = position * window.strides[side] - window.pads[side]
        taps = [start + tap * window.dilations[side] for tap in range(kernel)]
        counts.append(sum(0 <= tap < size for tap in taps))
    runs: list[tuple[int, tuple[int, int]]] = []
    for position, count in enumerate(counts):
        if runs and runs[-1][0] == count:
            runs[-1] = (count, (runs[-1][1][0], position + 1))
        else:
            runs.append((count, (position, position + 1)))
    return runs


def _max_pool(graph: Graph, node: Node, config: Config) -> Kernel:
    kinds = graph.type(node.inputs[0]), graph.type(node.outputs[0])
    window = _window(node, get_ints(node.attributes, "kernel_shape"), config)
    grouping = _per_block(kinds, config)
    subs = config.channel_lanes // config.block_out
    base = _work(kinds, window, config, grouping, used=subs)
    fields = {name: getattr(base, name) for name in base.__slots__}
    work = Work(**{**fields, "in_subs": subs, "accumulates": False})
    offset = INT8_OFFSET if is_unsigned(kinds[1]) else 0
    lanes = np.ones(config.block_out, np.int64)
    low, high = _clamp(node, kinds[1])
    everywhere = (((0, work.out_size[0]), (0, work.out_size[1])),)
    stage = Stage(encode_parameters(0 * lanes, lanes, 0 * lanes), offset, low, high, everywhere)
    layer = Layer(
        node.name,
        work,
        node.inputs[0],
        node.outputs[0],
        kinds[0].dtype,
        kinds[1].dtype,
        -INT8_OFFSET,
        stage,
    )
    return windows.build(layer, _search(work, config))


def _requantization(graph: Graph, node: Node, config: Config) -> Kernel:
    kinds = graph.type(node.inputs[0]), graph.type(node.outputs[0])
    low, high = _clamp(node, kinds[1])
    if kinds[0].quantization is None or kinds[1].quantization is None:
        ratio, offsets = 1.0, (0, 0)
    else:
        ratio = scale_ratio(_scale(kinds[0]), 1.0, _scale(kinds[1]))
        offsets = zero_point_of(kinds[0]), zero_point_of(kinds[1])
    flip = INT8_OFFSET if is_unsigned(kinds[0]) else 0
    multiplier, shift = multiplier_of_ratio(ratio)
    lanes = np.ones(config.block_out, np.int64)
    bias = lanes * (flip - offsets[0])
    rows = encode_parameters(bias, lanes * multiplier, lanes * shift)
    return requantize_kernel(graph, node, config, Stage(rows, offsets[1], low, high))


Template = Callable[[Graph, Node, Config], Kernel]
TEMPLATES: dict[str, Template] = {
    "AveragePool": _average_pool,
    "Conv": _convolution,
    "MatMul": _matrix_product,
    "MaxPool": _max_pool,
    "Requantize": _requantization,
}
