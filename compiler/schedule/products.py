"""The templates of convolution and matrix product."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.ir.graph import Graph, Node
from tilewright.compiler.ir.loops import Kernel
from tilewright.compiler.ir.packed import int8_zero_point, zero_point_of
from tilewright.compiler.schedule.attention import activation_product
from tilewright.compiler.schedule.folding import folded_weights, folded_window
from tilewright.compiler.schedule.operands import (
    Int64,
    Operands,
    clamp_of,
    operands_of,
    scale_of,
    scheduled,
    window_of,
    work_of,
)
from tilewright.compiler.schedule.weights import grouping_of, split_parts, used_subs, weight_tiles
from tilewright.compiler.schedule.windows import Layer, Stage
from tilewright.compiler.schedule.work import Window
from tilewright.hw.config import Config
from tilewright.hw.encoding import encode_parameters
from tilewright.hw.errors import CompileError
from tilewright.hw.numerics import multipliers_of_ratios, scale_ratio
from tilewright.runtime.attributes import get_int
from tilewright.runtime.packing import Fold

INT32_LIMIT = 1 << 31
MAX_MAGNITUDE = 128
"""Largest magnitude of an int8 operand."""


def convolution(graph: Graph, node: Node, config: Config, fold: Fold | None = None) -> Kernel:
    """Return the kernel of a Conv, 1-D or 2-D, with constant weights.

    `fold` tells how the host folds the input that it packs.
    """
    weights, scales = _weights(graph, node)
    kernel = weights.shape[2:]
    if weights.ndim == 3:
        weights = weights[:, :, None, :]
    operands, window = operands_of(graph, node), window_of(node, kernel, config)
    if fold is None:
        groups = get_int(node.attributes, "group", 1)
        return _products(graph, node, config, weights, scales, operands, window, groups)
    operands = replace(operands, x_shape=fold.shape(operands.x_shape))
    folded, window = folded_weights(weights, fold), folded_window(window, fold)
    layer = _products(graph, node, config, folded, scales, operands, window, 1)
    return replace(layer, folds={node.inputs[0]: fold})


def matrix_product(graph: Graph, node: Node, config: Config) -> Kernel:
    """Return the kernel of a MatMul: with constant weights [K, M] it is a 1×1 convolution."""
    if node.inputs[1] not in graph.constants:
        return activation_product(graph, node, config)
    weights, scales = _weights(graph, node)
    if weights.ndim != 2:
        raise CompileError(f"its weights have {weights.ndim} dimensions, not 2")
    spread = weights.T[:, :, None, None]
    operands = operands_of(graph, node)
    return _products(graph, node, config, spread, scales, operands, Window((1, 1)), 1)


def _weights(graph: Graph, node: Node) -> tuple[Int64, tuple[float, ...]]:
    """Weights less their zero point, and their scales."""
    name = node.inputs[1]
    if name not in graph.constants:
        raise CompileError(f"its second operand {name!r} is not a constant")
    kind, array = graph.type(name), graph.constants[name].astype(np.int64)
    if kind.dtype not in ("int8", "uint8"):
        raise CompileError(f"its weights are {kind.dtype}, not int8 or uint8")
    q = kind.quantization
    if q is None:
        return array, (1.0,)
    shape = [1] * array.ndim
    if q.axis is not None:
        shape[q.axis] = -1
    return array - np.array(q.zero_point, np.int64).reshape(shape), q.scale


def _products(
    graph: Graph,
    node: Node,
    config: Config,
    weights: Int64,
    scales: tuple[float, ...],
    operands: Operands,
    window: Window,
    groups: int,
) -> Kernel:
    """A convolution; weights are [O, I / groups, KH, KW] less their zero point."""
    outputs, depth = weights.shape[:2]
    parts = split_parts(weights)
    grouping = grouping_of(groups, depth, outputs // groups, config)
    used = used_subs(groups * depth if grouping.count == 1 else config.channel_lanes, config)
    zero_point = int8_zero_point(operands.x)
    bias = _bias(graph, node, weights, zero_point)
    raw = operands.y.dtype == "int32"
    work = replace(
        work_of(operands, window, grouping, config),
        used_subs=used,
        parts=len(parts),
        corrected=raw and bool(bias.any()),
    )
    rows = work.groups * work.out_blocks * work.out_subs
    if raw:
        stage = Stage(None)
    else:
        y_scale = scale_of(operands.y)
        ratios = [scale_ratio(scale_of(operands.x), scale, y_scale) for scale in scales]
        multiplier, shift = multipliers_of_ratios(ratios)
        table = np.zeros(rows * config.block_out, np.uint64)
        table[:outputs] = encode_parameters(
            bias, np.broadcast_to(multiplier, outputs), np.broadcast_to(shift, outputs)
        )
        stage = Stage(
            table.reshape(rows, config.block_out),
            zero_point_of(operands.y),
            *clamp_of(node, operands.y),
        )
    layer = Layer(
        name=node.name,
        work=work,
        x=node.inputs[0],
        y=node.outputs[0],
        x_dtype=operands.x.dtype,
        y_dtype=operands.y.dtype,
        pad=zero_point,
        stage=stage,
        weights=lambda tiling: weight_tiles(parts, groups, grouping, tiling, config),
        correction=_accumulator_tiles(bias, rows, config) if work.corrected else None,
    )
    return scheduled(layer, config)


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
        raise CompileError(
            f"its bias less the zero point's share reaches {np.abs(bias).max()}, past 32 bits"
        )
    return bias


def _accumulator_tiles(values: Int64, rows: int, config: Config) -> NDArray[np.uint8]:
    """One int32 tile a row of channels, the same for every image of the batch."""
    table = np.zeros(rows * config.block_out, np.int32)
    table[: len(values)] = values
    sub, batch = config.sub_lanes, config.batch
    tiles = table.reshape(rows, config.block_out // sub, 1, sub).repeat(batch, axis=2)
    return np.ascontiguousarray(tiles).view(np.uint8).reshape(-1)
