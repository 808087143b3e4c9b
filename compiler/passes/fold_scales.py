"""Fold Mul and Div by a positive number into the scale of the stored tensor that they read.

DequantizeLinear(x; s) · c = DequantizeLinear(Reinterpret(x; s · c)): no arithmetic is left, and
what follows (a pool, an Add, a QuantizeLinear) works on the stored integers.
"""

from dataclasses import replace

import numpy as np

from tilewright.compiler.ir.graph import Graph, Node, Value
from tilewright.compiler.passes.names import Names
from tilewright.compiler.passes.uses import Uses, merge_origins
from tilewright.compiler.passes.weights import quantized_source, real_constant
from tilewright.runtime.tensor import TensorType


def fold_scales(graph: Graph) -> Graph:
    """Rewrite Mul and Div of a dequantized 8-bit tensor by a scalar constant above zero.

    The new scale is s · c or s / c, c and the result rounded to float32.
    """
    uses, values, names = Uses(graph), dict(graph.values), Names(graph)
    nodes: list[Node] = []
    for node in graph.nodes:
        scaled = _scaled(graph, uses, node)
        if scaled is None:
            nodes.append(node)
            continue
        source, kind = scaled
        origin = merge_origins([*map(uses.producer, node.inputs), node])
        name = names.value(f"{node.outputs[0]}.as")
        reinterpret = names.node(f"{node.name}.Reinterpret")
        values[name] = Value(name, kind)
        nodes += [
            Node("Reinterpret", reinterpret, (source,), (name,), origin=origin),
            replace(node, op="DequantizeLinear", inputs=(name,), attributes={}),
        ]
    return replace(graph, nodes=tuple(nodes), values=values)


def _scaled(graph: Graph, uses: Uses, node: Node) -> tuple[str, TensorType] | None:
    """Return the stored tensor whose real value is scaled, and its type with the new scale."""
    if node.op not in {"Mul", "Div"}:
        return None
    orders = [node.inputs, node.inputs[::-1]] if node.op == "Mul" else [node.inputs]
    for x, other in orders:
        source, factor = quantized_source(uses, x), real_constant(graph, uses, other)
        if source is None or source in graph.constants or factor is None or factor.size != 1:
            continue
        kind, q = graph.type(source), graph.type(source).quantization
        if q is None or q.axis is not None or kind.dtype not in {"int8", "uint8"}:
            continue
        number = np.float32(factor.item())
        if number <= 0 or graph.type(node.outputs[0]).shape != kind.shape:
            continue
        old = np.float32(q.scale[0])
        with np.errstate(all="ignore"):
            scale = float(old * number if node.op == "Mul" else old / number)
        if np.isfinite(scale) and scale > 0:
            return source, replace(kind, quantization=replace(q, scale=(scale,)))
    return None
