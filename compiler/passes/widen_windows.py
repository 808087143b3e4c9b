"""Convolutions and pools over one spatial dimension as ones over H×W with H = 1."""

from dataclasses import replace

import numpy as np

from tilewright.compiler.ir.graph import Graph, Node, Value
from tilewright.compiler.passes.names import Names
from tilewright.runtime.attributes import get_ints
from tilewright.runtime.program import Attribute
from tilewright.runtime.tensor import TensorType

_PER_AXIS = ("kernel_shape", "strides", "dilations")


def widen_windows(graph: Graph) -> Graph:
    """Rewrite Conv, AveragePool, MaxPool of [N, C, W] to Squeeze(op(Unsqueeze(x)))."""
    values, constants = dict(graph.values), dict(graph.constants)
    nodes: list[Node] = []
    names = Names(graph)
    for node in graph.nodes:
        narrow = node.op in {"Conv", "AveragePool", "MaxPool"} and len(
            get_ints(node.attributes, "kernel_shape")
        )
        if narrow != 1 or (node.op == "Conv" and node.inputs[1] not in constants):
            nodes.append(node)
            continue
        x, y = node.inputs[0], node.outputs[0]
        wide, result = names.value(f"{x}.1xW"), names.value(f"{y}.1xW")
        values[wide] = Value(wide, _with_height(graph.type(x)))
        values[result] = Value(result, _with_height(graph.type(y)))
        inputs = [wide, *node.inputs[1:]]
        if node.op == "Conv":
            weight = names.value(f"{node.inputs[1]}.1xW")
            constants[weight] = np.ascontiguousarray(constants[node.inputs[1]][:, :, None])
            values[weight] = Value(weight, _with_height(graph.type(node.inputs[1])))
            inputs[1] = weight
        begin, end = get_ints(node.attributes, "pads")
        attributes: dict[str, Attribute] = {**node.attributes, "pads": (0, begin, 0, end)}
        attributes |= {key: (1, *get_ints(node.attributes, key)) for key in _PER_AXIS}
        nodes += [
            _alias("Unsqueeze", names, node, x, wide),
            replace(node, inputs=tuple(inputs), outputs=(result,), attributes=attributes),
            _alias("Squeeze", names, node, result, y),
        ]
    return replace(graph, nodes=tuple(nodes), values=values, constants=constants)


def _with_height(kind: TensorType) -> TensorType:
    return replace(kind, shape=(*kind.shape[:2], 1, *kind.shape[2:]))


def _alias(op: str, names: Names, node: Node, x: str, y: str) -> Node:
    return Node(op, names.node(f"{node.name}.{op}"), (x,), (y,), {"axes": (2,)}, origin=node.origin)
