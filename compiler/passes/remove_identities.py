"""Remove nodes that copy: Identity, and Requantize or Reshape to the very same type."""

from dataclasses import replace

from tilewright.compiler.ir.graph import Graph, Node
from tilewright.compiler.ir.operators import stored_range


def remove_identities(graph: Graph) -> Graph:
    """Let consumers read the original; a copy that is a graph output stays."""
    renamed: dict[str, str] = {}
    kept: list[Node] = []
    for node in graph.nodes:
        inputs = tuple(renamed.get(name, name) for name in node.inputs)
        if _copies(graph, node) and node.outputs[0] not in graph.output_names:
            renamed[node.outputs[0]] = inputs[0]
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
    if node.op != "Requantize":
        return True
    low, high = stored_range(kind.dtype)
    return (node.attributes.get("low", low), node.attributes.get("high", high)) == (low, high)
