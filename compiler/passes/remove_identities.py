"""Remove nodes that copy: Identity, and Requantize or Reshape to the very same type."""

from dataclasses import replace

from tilewright.compiler.ir.graph import Graph, Node
from tilewright.compiler.ir.operators import stored_range
from tilewright.compiler.passes.uses import Uses

_STEPS = 255
"""The largest distance of an 8-bit value from its zero point."""


def remove_identities(graph: Graph) -> Graph:
    """Name the original as its only copy, or else let consumers read the original.

    A copy of a graph input, constant or other output that is itself an output stays.  A
    Requantize between scales so close that no value changes becomes a Reinterpret.
    """
    uses, read, written = Uses(graph), dict[str, str](), dict[str, str]()
    kept: list[Node] = []
    for node in graph.nodes:
        x, y = node.inputs[0] if node.inputs else "", node.outputs[0]
        if not _copies(graph, node):
            reinterprets = node.op == "Requantize" and _keeps_values(graph, node)
            kept.append(replace(node, op="Reinterpret", attributes={}) if reinterprets else node)
        elif uses.is_private(x) and uses.producer(x) and x not in read:
            written[x] = y
        elif y not in graph.output_names:
            read[y] = read.get(x, x)
        else:
            kept.append(node)
    names = {name: _follow(written, read.get(name, name)) for name in graph.values}
    nodes = [
        replace(
            node,
            inputs=tuple(names[n] if n else "" for n in node.inputs),
            outputs=tuple(_follow(written, n) for n in node.outputs),
        )
        for node in kept
    ]
    values = {name: value for name, value in graph.values.items() if names[name] == name}
    return replace(graph, nodes=tuple(nodes), values=values)


def _follow(names: dict[str, str], name: str) -> str:
    while name in names:
        name = names[name]
    return name


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
