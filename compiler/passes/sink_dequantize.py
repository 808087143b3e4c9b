"""Move DequantizeLinear behind operators that only move values or pick the largest.

They give the same on stored integers, scales being positive; there they are a quarter of the
bytes, and no real value is left between quantized operators.
"""

from dataclasses import replace

import numpy as np

from tilewright.compiler.ir.graph import Graph, Node, Value
from tilewright.compiler.ir.operators import OPERATORS, Fusion, stored_range
from tilewright.compiler.passes.names import Names
from tilewright.runtime.attributes import get_float
from tilewright.runtime.program import Attribute
from tilewright.runtime.tensor import TensorType

KEEPING = {name for name, op in OPERATORS.items() if op.fusion is Fusion.LAYOUT} | {
    *("MaxPool", "Gather", "Pad")
}


def sink_dequantize(graph: Graph) -> Graph:
    """Rewrite op(DequantizeLinear(x)) to DequantizeLinear(op(x)), x having one scale."""
    values, nodes, names = dict(graph.values), list[Node](), Names(graph)
    stored: dict[str, str] = {}
    for node in graph.nodes:
        source = stored.get(node.inputs[0]) if node.op in KEEPING else None
        attributes = _stored_attributes(node, values[source].type) if source else None
        if source is None or attributes is None:
            nodes.append(node)
            x, y = node.inputs[0] if node.inputs else "", node.outputs[0]
            activation = node.op == "DequantizeLinear" and x not in graph.constants
            if activation and _has_one_scale(values[x].type):
                stored[y] = x
            continue
        y = node.outputs[0]
        kept = names.value(f"{y}.stored")
        values[kept] = Value(kept, replace(values[source].type, shape=graph.type(y).shape))
        stored[y] = kept
        moved = replace(
            node, inputs=(source, *node.inputs[1:]), outputs=(kept,), attributes=attributes
        )
        name = names.node(f"{node.name}.DequantizeLinear")
        nodes += [moved, Node("DequantizeLinear", name, (kept,), (y,), origin=node.origin)]
    return replace(graph, nodes=tuple(nodes), values=values)


def _has_one_scale(kind: TensorType) -> bool:
    q = kind.quantization
    return kind.dtype in {"int8", "uint8"} and q is not None and q.axis is None


def _stored_attributes(node: Node, kind: TensorType) -> dict[str, Attribute] | None:
    """The operator's attributes on stored integers; None for a border that is no stored value."""
    attributes, q = dict(node.attributes), kind.quantization
    if node.op != "Pad" or attributes["mode"] != "constant" or q is None:
        return attributes
    value, scale = np.float32(get_float(attributes, "value", 0.0)), np.float32(q.scale[0])
    steps = np.rint(value / scale)
    least, greatest = stored_range(kind.dtype)
    if np.float32(steps * scale) != value or not least <= steps + q.zero_point[0] <= greatest:
        return None
    return {**attributes, "value": int(steps) + q.zero_point[0]}
