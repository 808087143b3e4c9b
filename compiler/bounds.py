"""Lower bounds on cycles, from the graph and the config alone.

An operator's bound is what its MACs, or the bytes it must read or write once, take on a
machine that does nothing else: max(⌈MACs / peak⌉, ⌈read bytes / bus⌉, ⌈write bytes / bus⌉).
Bias, requantize, clip, ReLU, pad, reshape and transposes cost nothing.  The fused bound,
`floor_cycles`, lets every operator overlap with every other and keeps what lies between
them on chip.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tilewright.compiler.ir.graph import Graph, Node
from tilewright.hw.config import Config

COSTED = frozenset({"Conv", "MatMul", "AveragePool", "MaxPool", "Add", "Mul", "Concat"})
"""Operators that do work on the machine; every other one is free or not the machine's."""


@dataclass(frozen=True, slots=True)
class Bound:
    """An operator's work and the least cycles it takes; `limit` is compute, read, write or none."""

    macs: int
    read_bytes: int
    write_bytes: int
    cycles: int
    limit: str


def node_bound(graph: Graph, node: Node, config: Config, *, beats: Fraction | int = 1) -> Bound:
    """Return the bound of one node of a graph with static shapes.

    `beats` is how many AXI beats the memory moves in a cycle, in each direction, exactly.

    Raises:
        ModelError: a symbolic dimension that is not bound.
    """
    macs = num_macs(graph, node)
    if node.op not in COSTED or not _is_integer(graph, node):
        return Bound(macs, 0, 0, 0, "none")
    data = node.inputs[:2] if node.op in ("Conv", "MatMul") else node.inputs
    read_bytes = sum(_num_bytes(graph, name) for name in dict.fromkeys(filter(None, data)))
    write_bytes = sum(_num_bytes(graph, name) for name in node.outputs)
    bus = config.axi_bytes * beats
    costs = {
        "compute": math.ceil(macs / config.peak_macs_per_cycle),
        "read": math.ceil(read_bytes / bus),
        "write": math.ceil(write_bytes / bus),
    }
    limit = max(costs, key=costs.__getitem__)
    return Bound(macs, read_bytes, write_bytes, costs[limit], limit)


def node_bounds(graph: Graph, config: Config, *, beats: Fraction | int = 1) -> dict[str, Bound]:
    """Return the bound of every node, by node name; see `node_bound`."""
    return {node.name: node_bound(graph, node, config, beats=beats) for node in graph.nodes}


def floor_cycles(graph: Graph, config: Config, *, beats: Fraction | int = 1) -> int:
    """Return the fully fused bound of a graph with static shapes.

    The largest of all MACs at peak, weights and graph inputs over the bus, and graph outputs
    over the bus.  A float input counts as the integer tensor it is quantized to, a float
    output as the one it is dequantized from; other floats stay on the host and cost nothing.

    Raises:
        ModelError: a symbolic dimension that is not bound.
    """
    nodes = [node for node in graph.nodes if node.op in COSTED and _is_integer(graph, node)]
    weights = {
        node.inputs[1]
        for node in nodes
        if node.op in ("Conv", "MatMul") and node.inputs[1] in graph.constants
    }
    bus = config.axi_bytes * beats
    return max(
        math.ceil(sum(num_macs(graph, node) for node in nodes) / config.peak_macs_per_cycle),
        math.ceil(_stored_bytes(graph, weights | _machine_inputs(graph)) / bus),
        math.ceil(_stored_bytes(graph, _machine_outputs(graph)) / bus),
    )


def _machine_inputs(graph: Graph) -> set[str]:
    names = set(graph.input_names)
    names |= {
        node.outputs[0]
        for node in graph.nodes
        if node.op == "QuantizeLinear" and node.inputs[0] in graph.input_names
    }
    return {name for name in names if _is_integer_value(graph, name)}


def _machine_outputs(graph: Graph) -> set[str]:
    names = set(graph.output_names)
    names |= {
        node.inputs[0]
        for node in graph.nodes
        if node.op == "DequantizeLinear" and node.outputs[0] in graph.output_names
    }
    return {name for name in names if _is_integer_value(graph, name)}


def num_macs(graph: Graph, node: Node) -> int:
    """Return the multiply-accumulates of one inference; taps on border padding count."""
    if node.op not in ("Conv", "MatMul"):
        return 0
    outputs = math.prod(graph.type(node.outputs[0]).static_shape)
    if node.op == "MatMul":
        return outputs * graph.type(node.inputs[0]).static_shape[-1]
    return outputs * math.prod(graph.type(node.inputs[1]).static_shape[1:])


def _is_integer(graph: Graph, node: Node) -> bool:
    return _is_integer_value(graph, node.inputs[0])


def _is_integer_value(graph: Graph, name: str) -> bool:
    return np.issubdtype(np.dtype(graph.type(name).dtype), np.integer)


def _num_bytes(graph: Graph, name: str) -> int:
    kind = graph.type(name)
    return math.prod(kind.static_shape) * np.dtype(kind.dtype).itemsize


def _stored_bytes(graph: Graph, names: Iterable[str]) -> int:
    return sum(_num_bytes(graph, name) for name in sorted(names))
