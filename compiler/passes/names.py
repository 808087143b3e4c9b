"""Names that a pass invents: never one that the model has."""

from tilewright.compiler.ir.graph import Graph


class Names:
    """The names of a graph's values and nodes, and those invented since."""

    def __init__(self, graph: Graph) -> None:
        self._values = set(graph.values)
        self._nodes = {node.name for node in graph.nodes}

    def value(self, name: str) -> str:
        """Return `name`, or it with a number where a value is called so."""
        return _fresh(self._values, name)

    def node(self, name: str) -> str:
        """Return `name`, or it with a number where a node is called so."""
        return _fresh(self._nodes, name)


def _fresh(taken: set[str], name: str) -> str:
    candidate, count = name, 1
    while candidate in taken:
        candidate, count = f"{name}.{count}", count + 1
    taken.add(candidate)
    return candidate
