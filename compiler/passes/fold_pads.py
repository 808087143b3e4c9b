"""Fold a Pad with the value that a convolution pads with into the convolution's own pads."""

from dataclasses import replace

from tilewright.compiler.ir.graph import Graph, Node
from tilewright.compiler.passes.uses import Uses, merge_origins
from tilewright.runtime.attributes import get_ints


def fold_pads(graph: Graph) -> Graph:
    """Fold spatial zero padding (the zero point, on stored integers) into Conv."""
    uses = Uses(graph)
    return replace(graph, nodes=tuple(_fold(graph, uses, node) for node in graph.nodes))


def _fold(graph: Graph, uses: Uses, node: Node) -> Node:
    pad = uses.producer(node.inputs[0]) if node.op == "Conv" else None
    if pad is None or pad.op != "Pad" or pad.attributes["mode"] != "constant":
        return node
    pads = get_ints(pad.attributes, "pads")
    rank = len(pads) // 2
    quantization = graph.type(pad.inputs[0]).quantization
    neutral = quantization.zero_point[0] if quantization else 0
    outer = (*pads[:2], *pads[rank : rank + 2])
    if pad.attributes["value"] != neutral or any(outer) or min(pads) < 0:
        return node
    added = (*pads[2:rank], *pads[rank + 2 :])
    own = get_ints(node.attributes, "pads")
    total = tuple(a + b for a, b in zip(added, own, strict=True))
    return replace(
        node,
        inputs=(pad.inputs[0], *node.inputs[1:]),
        attributes={**node.attributes, "pads": total},
        origin=merge_origins([pad, node]),
    )
