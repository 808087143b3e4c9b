"""Fold a Pad into the convolution or pool that reads it, where both pad with the same value."""

from dataclasses import replace

import numpy as np

from tilewright.compiler.ir.graph import Graph, Node
from tilewright.compiler.ir.operators import stored_range
from tilewright.compiler.passes.uses import Uses, merge_origins
from tilewright.runtime.attributes import get_float, get_int, get_ints
from tilewright.runtime.program import Attribute
from tilewright.runtime.tensor import TensorType


def fold_pads(graph: Graph) -> Graph:
    """Fold constant spatial padding into the pads of the operator after it.

    Conv and AveragePool pad with real zero (the zero point, on stored integers), MaxPool with
    the least value.  AveragePool then counts its padding; it must not have had any uncounted.
    """
    uses = Uses(graph)
    return replace(graph, nodes=tuple(_fold(graph, uses, node) for node in graph.nodes))


def _fold(graph: Graph, uses: Uses, node: Node) -> Node:
    pad = uses.producer(node.inputs[0]) if node.op in {"Conv", "AveragePool", "MaxPool"} else None
    if pad is None or pad.op != "Pad" or pad.attributes["mode"] != "constant":
        return node
    pads, own = get_ints(pad.attributes, "pads"), get_ints(node.attributes, "pads")
    rank = len(pads) // 2
    outer = (*pads[:2], *pads[rank : rank + 2])
    value = get_float(pad.attributes, "value", 0.0)
    if any(outer) or min(pads) < 0 or not _is_neutral(value, graph.type(pad.inputs[0]), node.op):
        return node
    counted: dict[str, Attribute] = {}
    if node.op == "AveragePool":
        if any(own) and not get_int(node.attributes, "count_include_pad", 0):
            return node
        counted = {"count_include_pad": 1}
    added = (*pads[2:rank], *pads[rank + 2 :])
    total = tuple(a + b for a, b in zip(added, own, strict=True))
    return replace(
        node,
        inputs=(pad.inputs[0], *node.inputs[1:]),
        attributes={**node.attributes, **counted, "pads": total},
        origin=merge_origins([pad, node]),
    )


def _is_neutral(value: float, kind: TensorType, op: str) -> bool:
    if op != "MaxPool":
        return value == (kind.quantization.zero_point[0] if kind.quantization else 0)
    if kind.dtype.startswith("float"):
        return value <= float(np.finfo(kind.dtype).min)
    return value == stored_range(kind.dtype)[0]
