"""Remove nodes that copy: Identity, and Requantize or Reshape to the very same type."""

from dataclasses import replace

from tilewright.compiler.ir.graph import Graph, Node
from tilewright.compiler.ir.operators import stored_range

_STEPS = 255
"""The largest distance of an 8-bit value from its zero point."""


def remove_identities(graph: Graph) -> Graph:
    """Let consumers read the original; a copy that is a graph output stays.

    A Requantize between scales so close that no value changes becomes a Reinterpret.
    """
    renamed: dict[str, str] = {}
    kept: list[Node] = []
    for node in graph.nodes:
        inputs = tuple(renamed.get(name, name) for name in node.inputs)
        if _copies(graph, node) and node.outputs[0] not in graph.output_names:
            renamed[node.outputs[0]] = inputs[0]
        elif node.op == "Requantize" and _keeps_values(graph, node):
            kept.append(replace(node, op="Reinterpret", inputs=inputs, attributes={}))
        else:
            kept.append(replace(node, inputs=inputs))
    values = {name: value for name, value in graph.values.items() if name not in renamed}
    return replace(graph, nodes=tuple(kept), values=values)


def _copies(graph: Graph, node: Node) -> bool:
    if node.op == "Identity":
        return True
    if node.op not in {"Requantize", "Reshape", "Flatten", "Reinterpret"}:
        return False
    kind = graph.type(node.outputs[0])
    if kind != graph.type(node.inputs[0]):
        return False
    return node.op != "Requantize" or _is_unclamped(node, kind.dtype)


def _keeps_values(graph: Graph, node: Node) -> bool:
    """Whether x · ratio rounds to x for every x of 8 bits, and nothing is clamped."""
    x, y = graph.type(node.inputs[0]), graph.type(node.outputs[0])
    if x.dtype != y.dtype or x.quantization is None or y.quantization is None:
        return False
    if x.quantization.zero_point != y.quantization.zero_point or x.quantization.axis is not None:
        return False
    change = abs(x.quantization.scale[0] / y.quantization.scale[0] - 1)
    return change * _STEPS < 0.25 and _is_unclamped(node, y.dtype)


def _is_unclamped(node: Node, dtype: str) -> bool:
    low, high = stored_range(dtype)
    return (node.attributes.get("low", low), node.attributes.get("high", high)) == (low, high)
