"""Who defines and who reads each value of a graph."""

from collections.abc import Iterable

from tilewright.compiler.ir.graph import Graph, Node


class Uses:
    """Producers and consumers by value name, for one graph."""

    def __init__(self, graph: Graph) -> None:
        self._outputs = frozenset(graph.output_names)
        self._producers = {name: node for node in graph.nodes for name in node.outputs}
        self._consumers: dict[str, list[Node]] = {}
        for node in graph.nodes:
            for name in dict.fromkeys(node.inputs):
                self._consumers.setdefault(name, []).append(node)

    def producer(self, name: str) -> Node | None:
        """Return the node that defines a value, or None."""
        return self._producers.get(name)

    def consumers(self, name: str) -> list[Node]:
        """Return the nodes that read a value, in order."""
        return self._consumers.get(name, [])

    def is_private(self, name: str) -> bool:
        """Whether one node alone reads the value, and the graph does not return it."""
        return len(self.consumers(name)) == 1 and name not in self._outputs


def merge_origins(nodes: Iterable[Node | None]) -> tuple[str, ...]:
    """Return the ONNX nodes that these nodes stand for, each once, in order."""
    return tuple(dict.fromkeys(name for node in nodes if node for name in node.origin))
