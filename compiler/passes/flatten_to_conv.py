"""Turn Flatten of [N, C, H, W] into a MatMul into a convolution with an H×W kernel.

The packed layout keeps channels innermost, so a Flatten would move every element; the
convolution reads the tensor as it lies and needs its weights in another order only.
"""

from dataclasses import replace

import numpy as np

from tilewright.compiler.ir.graph import Graph, Node, Value
from tilewright.compiler.passes.names import Names
from tilewright.compiler.passes.uses import Uses, merge_origins
from tilewright.runtime.program import Attribute
from tilewright.runtime.tensor import TensorType


def flatten_to_conv(graph: Graph) -> Graph:
    """Rewrite MatMul(Flatten(x), w) to Flatten(Conv(x, w')) where x has H·W > 1."""
    uses = Uses(graph)
    values, constants = dict(graph.values), dict(graph.constants)
    nodes: list[Node] = []
    names = Names(graph)
    for node in graph.nodes:
        flatten = uses.producer(node.inputs[0]) if node.op == "MatMul" else None
        if flatten is None or not _is_spatial_flatten(graph, flatten, node):
            nodes.append(node)
            continue
        x, y = flatten.inputs[0], node.outputs[0]
        c, h, w = spatial_sizes(graph.type(x))
        weight, out = node.inputs[1], graph.type(y)
        kind, columns = graph.type(weight), constants[weight].shape[1]
        array = constants[weight].T.reshape(columns, c, h, w)
        q = kind.quantization
        turned = replace(q, axis=None if q.axis is None else 0) if q else None
        name, spread = names.value(f"{weight}.{c}x{h}x{w}"), names.value(f"{y}.1x1")
        constants[name] = np.ascontiguousarray(array)
        values[name] = Value(name, TensorType(kind.dtype, array.shape, turned))
        values[spread] = Value(spread, replace(out, shape=(*out.shape, 1, 1)))
        attributes: dict[str, Attribute] = {
            **node.attributes,
            "kernel_shape": (h, w),
            "strides": (1, 1),
            "dilations": (1, 1),
            "pads": (0, 0, 0, 0),
            "group": 1,
        }
        conv = replace(
            node,
            op="Conv",
            inputs=(x, name, *node.inputs[2:]),
            outputs=(spread,),
            attributes=attributes,
            origin=merge_origins([flatten, node]),
        )
        back = names.node(f"{node.name}.Flatten")
        nodes += [conv, Node("Flatten", back, (spread,), (y,), {"axis": 1}, origin=node.origin)]
    return replace(graph, nodes=tuple(nodes), values=values, constants=constants)


def _is_spatial_flatten(graph: Graph, flatten: Node, node: Node) -> bool:
    if flatten.op not in {"Flatten", "Reshape"} or node.inputs[1] not in graph.constants:
        return False
    before, after = graph.type(flatten.inputs[0]), graph.type(flatten.outputs[0])
    if len(before.shape) != 4 or len(after.shape) != 2 or before.shape[0] != after.shape[0]:
        return False
    if before.quantization != after.quantization:
        return False
    if any(isinstance(d, str) for d in before.shape[1:]):
        return False
    _, height, width = spatial_sizes(before)
    return height * width > 1


def spatial_sizes(kind: TensorType) -> tuple[int, int, int]:
    """Return C, H, W of a [N, C, H, W] tensor whose batch may be a symbol."""
    c, h, w = replace(kind, shape=kind.shape[1:]).static_shape
    return c, h, w
