"""Evaluate nodes that read constants only, with the host kernels."""

from dataclasses import replace

from tilewright.compiler.ir.graph import Graph, Node
from tilewright.runtime.host import KERNELS


def fold_constants(graph: Graph) -> Graph:
    """Turn their outputs into constants; shapes must be static for the types to stay right."""
    constants, nodes = dict(graph.constants), list[Node]()
    for node in graph.nodes:
        known = all(name in constants for name in node.inputs if name)
        if not known or not node.inputs or node.op not in KERNELS:
            nodes.append(node)
            continue
        arrays = [constants[name] if name else None for name in node.inputs]
        kinds = [graph.type(name) if name else None for name in node.inputs]
        out = [graph.type(name) for name in node.outputs]
        results = KERNELS[node.op](arrays, node.attributes, kinds, out)
        constants.update(zip(node.outputs, results, strict=True))
    return replace(graph, nodes=tuple(nodes), constants=constants)
