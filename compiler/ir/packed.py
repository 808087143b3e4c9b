"""How a tensor of the graph lies on the machine: its four packed dimensions, its stored domain."""

from tilewright.compiler.ir.graph import Graph, Node
from tilewright.compiler.ir.layout import (
    Layout,
    image_layout,
    packed_axes,
    reshaped,
    transposed,
)
from tilewright.hw.config import Config
from tilewright.hw.errors import CompileError
from tilewright.runtime.attributes import get_ints
from tilewright.runtime.packing import Fold, Packing, Shape4
from tilewright.runtime.tensor import TensorType

INT8_OFFSET = 128
"""Loads flip the top bit of uint8, which subtracts this from stored values and zero points."""


def packed_shape(kind: TensorType) -> Shape4:
    """Return (N, C, H, W) with axis 1 as the channels, absent axes 1."""
    return image_layout(kind.static_shape).shape


def packing_of(graph: Graph, name: str, config: Config, fold: Fold | None = None) -> Packing:
    """Return the packing of a value that the machine reads or writes.

    Raises:
        CompileError: it has none.
    """
    kind, layout = graph.type(name), layout_of_value(graph, name)
    if kind.dtype not in ("int8", "uint8", "int32"):
        raise CompileError(f"{name!r} is {kind.dtype}; int8, uint8 and int32 are packed")
    factors, order = layout.factors, layout.order
    if order == tuple(range(len(order))):
        factors, order = (), ()
    return Packing.of(layout.shape, kind.dtype, config, fold=fold, factors=factors, order=order)


def is_unsigned(kind: TensorType) -> bool:
    """Whether loads flip the tensor into the int8 domain."""
    return kind.dtype == "uint8"


def zero_point_of(kind: TensorType) -> int:
    """Return the zero point in stored units; 0 without quantization."""
    return kind.quantization.zero_point[0] if kind.quantization else 0


def int8_zero_point(kind: TensorType) -> int:
    """Return the zero point as the scratchpads hold it, in the int8 domain."""
    return zero_point_of(kind) - (INT8_OFFSET if is_unsigned(kind) else 0)


def layout_of_value(graph: Graph, name: str) -> Layout:
    """Return the layout of a value; without one of its own, axis 1 is the channels."""
    value = graph.values[name]
    return value.layout or image_layout(value.type.static_shape)


def lies_as(graph: Graph, name: str, layout: Layout, config: Config) -> bool:
    """Whether a value's packed bytes are what another layout of it says."""
    own = packed_axes(layout_of_value(graph, name), config)
    return own == packed_axes(layout, config)


def alias_layout(graph: Graph, node: Node, layout: Layout) -> Layout | None:
    """Return the layout of an alias's output whose bytes are its input's, lying in `layout`."""
    x, y = graph.type(node.inputs[0]), graph.type(node.outputs[0])
    if x.dtype != y.dtype:
        return None
    if node.op == "Transpose":
        return transposed(layout, x.static_shape, _perm(node, len(x.shape)))
    return reshaped(layout, y.static_shape)


def alias_source(graph: Graph, node: Node, layout: Layout) -> Layout | None:
    """Return the layout of an alias's input whose bytes are its output's, lying in `layout`."""
    x, y = graph.type(node.inputs[0]), graph.type(node.outputs[0])
    if x.dtype != y.dtype:
        return None
    if node.op == "Transpose":
        perm = _perm(node, len(x.shape))
        return transposed(layout, y.static_shape, [perm.index(i) for i in range(len(perm))])
    return reshaped(layout, x.static_shape)


def _perm(node: Node, rank: int) -> tuple[int, ...]:
    return get_ints(node.attributes, "perm", tuple(range(rank))[::-1])
