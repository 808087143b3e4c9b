"""Give symbolic dimensions their sizes."""

from collections.abc import Mapping
from dataclasses import replace

from tilewright.compiler.ir import dims
from tilewright.compiler.ir.graph import Graph, Value
from tilewright.compiler.ir.operators import infer_types
from tilewright.hw.errors import ModelError


def bind_shapes(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    """Replace symbols of the inputs by sizes and infer every other shape again.

    Raises:
        ModelError: a symbol that the graph has not, a size below 1, or shapes that do not fit.
    """
    symbols = {dim for value in graph.inputs for dim in value.shape if isinstance(dim, str)}
    for symbol, size in sizes.items():
        if symbol not in symbols:
            known = ", ".join(sorted(symbols)) or "none"
            raise ModelError(f"shape: {graph.name} has no dimension {symbol!r}; it has: {known}")
        if size < 1:
            raise ModelError(f"shape: {symbol}={size}; a dimension is at least 1")
    values = dict(graph.values)
    for value in graph.inputs:
        shape = tuple(dims.bind(dim, sizes) for dim in value.shape)
        values[value.name] = Value(value.name, replace(value.type, shape=shape))
    for node in graph.nodes:
        kinds = tuple(values[name].type if name else None for name in node.inputs)
        types = infer_types(node.op, node.name, kinds, node.attributes)
        for name, kind in zip(node.outputs, types, strict=True):
            values[name] = Value(name, replace(values[name].type, shape=kind.shape))
    return replace(graph, values=values)
