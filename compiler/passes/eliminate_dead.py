"""Remove nodes whose outputs nobody reads, and values and constants that are gone with them."""

from dataclasses import replace

from tilewright.compiler.ir.graph import Graph, Node


def eliminate_dead(graph: Graph) -> Graph:
    """Keep what the outputs depend on; inputs stay, read or not."""
    live, kept = set(graph.output_names), list[Node]()
    for node in reversed(graph.nodes):
        if live.intersection(node.outputs):
            kept.append(node)
            live.update(name for name in node.inputs if name)
    kept.reverse()
    defined = {name for node in kept for name in node.outputs} | live | set(graph.input_names)
    return replace(
        graph,
        nodes=tuple(kept),
        values={name: value for name, value in graph.values.items() if name in defined},
        constants={name: array for name, array in graph.constants.items() if name in live},
    )
