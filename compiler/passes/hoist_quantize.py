"""Move QuantizeLinear before operators that only move values, next to what computes them."""

from dataclasses import replace

from tilewright.compiler.ir.graph import Graph, Node, Value
from tilewright.compiler.ir.operators import OPERATORS, Fusion
from tilewright.compiler.passes.names import Names
from tilewright.compiler.passes.uses import Uses


def hoist_quantize(graph: Graph) -> Graph:
    """Rewrite QuantizeLinear(op(x)) to op(QuantizeLinear(x)) where nothing else reads them."""
    while True:
        uses = Uses(graph)
        for end in graph.nodes:
            move = uses.producer(end.inputs[0]) if end.op == "QuantizeLinear" else None
            if move is not None and _can_swap(graph, uses, move, end):
                graph = _swap(graph, move, end)
                break
        else:
            return graph


def _can_swap(graph: Graph, uses: Uses, move: Node, end: Node) -> bool:
    q = graph.type(end.outputs[0]).quantization
    before = uses.producer(move.inputs[0])
    return (
        OPERATORS[move.op].fusion is Fusion.LAYOUT
        and q is not None
        and q.axis is None
        and before is not None
        and uses.is_private(move.outputs[0])
        and uses.is_private(move.inputs[0])
    )


def _swap(graph: Graph, move: Node, end: Node) -> Graph:
    x, y = move.inputs[0], end.outputs[0]
    stored = Names(graph).value(f"{x}.stored")
    kind = replace(graph.type(y), shape=graph.type(x).shape)
    swapped = {
        move.name: replace(end, inputs=(x,), outputs=(stored,)),
        end.name: replace(move, inputs=(stored, *move.inputs[1:]), outputs=(y,)),
    }
    nodes = tuple(swapped.get(node.name, node) for node in graph.nodes)
    values = {n: v for n, v in graph.values.items() if n != move.outputs[0]}
    return replace(graph, nodes=nodes, values={**values, stored: Value(stored, kind)})
