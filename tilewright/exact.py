"""The exact reference: integer layers of a graph in exact arithmetic, written on its own.

It shares the imported graph with the compiler and nothing else: neither the machine's
arithmetic nor a host kernel.  Integers are exact (float64 sums stay below 2^53), scale ratios
are fractions, rounding is half to even.  Every rule accepts any batch.
"""

from collections.abc import Mapping

import numpy as np

from tilewright.compiler.ir.graph import Graph, Node
from tilewright.exact_arithmetic import Layer
from tilewright.exact_layout import LAYOUT_RULES, UNSCALED_RULES
from tilewright.exact_rules import BORDER_RULES, INTEGER_RULES, STORED_RULES, Rule
from tilewright.hw.errors import ModelError
from tilewright.runtime.tensor import Array, TensorType

Tensors = Mapping[str, Array]


def execute(graph: Graph, feeds: Tensors, assumed: Tensors | None = None) -> dict[str, Array]:
    """Return every tensor that can be computed exactly from `feeds`, inputs included.

    A node without an exact rule (real-valued operators on the host) takes its outputs from
    `assumed`; what depends on one that is not there is left out.

    Raises:
        ModelError: an input is missing from `feeds`.
    """
    tensors: dict[str, Array] = {**graph.constants}
    for name in graph.input_names:
        if name not in feeds:
            raise ModelError(f"exact: input {name!r} is missing; give every graph input")
        tensors[name] = np.asarray(feeds[name])
    for node in graph.nodes:
        results = execute_node(graph, node, tensors)
        if results is None and assumed:
            results = {name: assumed[name] for name in node.outputs if name in assumed}
        tensors.update(results or {})
    return {name: array for name, array in tensors.items() if name not in graph.constants}


def execute_node(
    graph: Graph, node: Node, tensors: Tensors, *, nudge: float = 0.0
) -> dict[str, Array] | None:
    """Return a node's outputs by name, or None without a rule or with an input missing.

    With a `nudge` below one step, results near a rounding tie move to the other side of it.
    """
    if any(name and name not in tensors for name in node.inputs):
        return None
    arrays = tuple(tensors[name] if name else None for name in node.inputs)
    kinds = tuple(graph.type(name) if name else None for name in node.inputs)
    layer = Layer(node, kinds, tuple(graph.type(name) for name in node.outputs), arrays, nudge)
    rule = _rule(layer)
    return None if rule is None else dict(zip(node.outputs, rule(layer), strict=True))


def _rule(layer: Layer) -> Rule | None:
    """Return the rule of a layer's operator, where its operands are what the rule is for."""
    op, kinds = layer.node.op, layer.kinds
    if op in STORED_RULES and all(map(_is_stored, [*kinds, *layer.out])):
        return STORED_RULES[op]
    if op in UNSCALED_RULES and not any(kind and kind.quantization for kind in kinds):
        return UNSCALED_RULES[op]
    if op in INTEGER_RULES and kinds[0] is not None and not kinds[0].dtype.startswith("float"):
        return INTEGER_RULES[op]
    if op == "Pad" and layer.node.attributes.get("mode", "constant") != "constant":
        return None
    return BORDER_RULES.get(op) or LAYOUT_RULES.get(op)


def _is_stored(kind: TensorType | None) -> bool:
    q = kind.quantization if kind else None
    return kind is not None and kind.dtype in {"int8", "uint8"} and q is not None and q.axis is None
