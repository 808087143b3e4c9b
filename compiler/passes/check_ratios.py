"""Refuse scale ratios that the machine's multipliers cannot hold, naming the node."""

import numpy as np

from tilewright.compiler.ir.graph import Graph, Node
from tilewright.hw.errors import CompileError, ModelError
from tilewright.hw.numerics import add_multipliers, multiplier_of_ratio, scale_ratio
from tilewright.runtime.tensor import Quantization

_STORED = {"int8", "uint8"}
_PRODUCTS = {"Conv", "MatMul", "Mul"}
_SUMS = {"Add", "Sub"}
_ONE_BY_ONE = {"Concat", "Requantize", "AveragePool", "ReduceMean"}
"""Of a mean the ratio is smaller by the count; what is refused here is far from any model."""


def check_ratios(graph: Graph) -> Graph:
    """Return the graph as it is.

    Raises:
        ModelError: a ratio of scales that is not in (0, 2^24), of an Add or Sub 2^22.
    """
    for node in graph.nodes:
        try:
            _check(graph, node)
        except CompileError as error:
            name = node.origin[0] if len(node.origin) == 1 else node.name
            raise ModelError(f"node {name!r}: {node.op}: {error}") from None
    return graph


def _check(graph: Graph, node: Node) -> None:
    if node.op not in _PRODUCTS | _SUMS | _ONE_BY_ONE:
        return
    kinds = [graph.type(name) for name in (*node.inputs, *node.outputs[:1]) if name]
    used = [kind for kind in kinds if kind.dtype in _STORED]
    parts = [kind.quantization for kind in used if kind.quantization]
    bias = node.op in {"Conv", "MatMul"} and len(node.inputs) > 2 and bool(node.inputs[2])
    if len(parts) != len(kinds) - bias:
        return
    *inputs, y = parts
    with np.errstate(over="ignore", under="ignore"):
        for ratio in _ratios(node, inputs, y):
            multiplier_of_ratio(ratio)
    if node.op in _SUMS:
        add_multipliers(inputs[0].scale[0], inputs[1].scale[0], y.scale[0])


def _ratios(node: Node, inputs: list[Quantization], y: Quantization) -> list[float]:
    if node.op in _PRODUCTS:
        return [scale_ratio(inputs[0].scale[0], w, y.scale[0]) for w in inputs[1].scale]
    if node.op in _SUMS:
        return []
    return [scale_ratio(x.scale[0], 1.0, y.scale[0]) for x in inputs if x.axis is None]
