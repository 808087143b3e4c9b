"""One Reshape where several follow each other, none where they cancel."""

from dataclasses import replace

from tilewright.compiler.ir.graph import Graph, Node
from tilewright.compiler.passes.uses import Uses, merge_origins
from tilewright.runtime.program import Attribute
from tilewright.runtime.tensor import TensorType

RESHAPES = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze"})
"""Operators that keep the elements and their order."""


def merge_reshapes(graph: Graph) -> Graph:
    """Let each read the value before the first of its chain; a graph output stays."""
    uses, renamed = Uses(graph), dict[str, str]()
    nodes: list[Node] = []
    for node in graph.nodes:
        inputs = tuple(renamed.get(name, name) for name in node.inputs)
        chain = _chain(uses, node)
        root, y = chain[0].inputs[0], node.outputs[0]
        root = renamed.get(root, root)
        kind = graph.type(y)
        if node.op in RESHAPES and kind == graph.type(root) and y not in graph.output_names:
            renamed[y] = root
        elif len(chain) > 1 and (target := _target(kind)) is not None:
            attributes: dict[str, Attribute] = {"shape": target, "allowzero": 1}
            origin = merge_origins(chain)
            nodes.append(
                replace(node, op="Reshape", inputs=(root,), attributes=attributes, origin=origin)
            )
        else:
            nodes.append(replace(node, inputs=inputs))
    values = {name: value for name, value in graph.values.items() if name not in renamed}
    return replace(graph, nodes=tuple(nodes), values=values)


def _chain(uses: Uses, node: Node) -> list[Node]:
    """The node and the reshapes before it, first to last."""
    chain = [node]
    while chain[0].op in RESHAPES:
        before = uses.producer(chain[0].inputs[0])
        if before is None or before.op not in RESHAPES:
            break
        chain.insert(0, before)
    return chain


def _target(kind: TensorType) -> tuple[int, ...] | None:
    """The attribute `shape` that gives a type's shape, or None when two symbols are left."""
    shape = tuple(-1 if isinstance(dim, str) else dim for dim in kind.shape)
    return shape if shape.count(-1) <= 1 else None
