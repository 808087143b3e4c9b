"""Relu and Clip on stored integers: part of the operator before them, or a Requantize."""

from dataclasses import replace

from tilewright.compiler.ir.graph import Graph, Node
from tilewright.compiler.ir.operators import OPERATORS, Fusion, stored_range
from tilewright.compiler.passes.clamps import Clamp, clamp_of
from tilewright.compiler.passes.uses import Uses, merge_origins
from tilewright.runtime.attributes import get_int

_WITH_BOUNDS = {
    *("Conv", "MatMul", "AveragePool", "Requantize"),
    *("Add", "Sub", "Mul", "Concat", "ReduceMean"),
}


def fuse_clamps(graph: Graph) -> Graph:
    """Tighten low and high of the producer when nobody else reads its output."""
    nodes: list[Node] = []
    for node in graph.nodes:
        kind = graph.type(node.inputs[0]) if node.inputs and node.inputs[0] else None
        if kind is None or kind.dtype not in {"int8", "uint8"}:
            nodes.append(node)
        elif OPERATORS[node.op].fusion is Fusion.CLAMP:
            nodes.append(_as_requantize(graph, node))
        else:
            nodes.append(node)
    return _merge(replace(graph, nodes=tuple(nodes)))


def _as_requantize(graph: Graph, node: Node) -> Node:
    least, greatest = stored_range(graph.type(node.outputs[0]).dtype)
    clamp = clamp_of(node).then(Clamp(least, greatest))
    bounds = {"low": int(clamp.low), "high": int(clamp.high)}
    return replace(node, op="Requantize", attributes=bounds)


def _merge(graph: Graph) -> Graph:
    uses, merged = Uses(graph), dict[str, Node]()
    for node in graph.nodes:
        before = uses.producer(node.inputs[0]) if node.op == "Requantize" else None
        x, y = node.inputs[0] if node.inputs else "", node.outputs[0]
        if (
            before is not None
            and before.op in _WITH_BOUNDS
            and "low" in before.attributes
            and uses.is_private(x)
            and graph.type(x) == graph.type(y)
        ):
            before = merged.pop(x, before)
            merged[y] = _tightened(graph, before, node)
        else:
            merged[y] = node
    return replace(graph, nodes=tuple(merged.values()))


def _tightened(graph: Graph, before: Node, node: Node) -> Node:
    least, greatest = stored_range(graph.type(node.outputs[0]).dtype)
    own = Clamp(
        get_int(before.attributes, "low", least), get_int(before.attributes, "high", greatest)
    )
    after = Clamp(get_int(node.attributes, "low"), get_int(node.attributes, "high"))
    both = own.then(after)
    return replace(
        before,
        outputs=node.outputs,
        attributes={**before.attributes, "low": int(both.low), "high": int(both.high)},
        origin=merge_origins([before, node]),
    )
