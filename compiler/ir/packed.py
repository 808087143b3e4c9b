"""How a tensor of the graph lies on the machine: its four packed dimensions, its stored domain."""

from tilewright.compiler.ir.graph import Graph
from tilewright.compiler.ir.layout import Layout, image_layout, packed_axes
from tilewright.hw.config import Config
from tilewright.hw.errors import CompileError
from tilewright.runtime.packing import Fold, Packing, Shape4
from tilewright.runtime.tensor import TensorType

INT8_OFFSET = 128
"""Loads flip the top bit of uint8, which subtracts this from stored values and zero points."""


def packed_shape(kind: TensorType) -> Shape4 | None:
    """Return (N, C, H, W): channels are axis 1, absent spatial axes 1; None above rank 4."""
    shape = kind.static_shape
    match shape:
        case (n, c, h, w):
            return n, c, h, w
        case (n, c, w):
            return n, c, 1, w
        case (n, c):
            return n, c, 1, 1
        case (c,):
            return 1, c, 1, 1
        case _:
            return None


def packing_of(kind: TensorType, config: Config, fold: Fold | None = None) -> Packing | None:
    """Return the packing of a tensor that the machine reads or writes, if it has one."""
    shape = packed_shape(kind)
    if shape is None or kind.dtype not in ("int8", "uint8", "int32"):
        return None
    return Packing.of(shape, kind.dtype, config, fold=fold)


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
    """Return the layout of a value; without one of its own, axis 1 is the channels.

    Raises:
        CompileError: it has more than 4 dimensions.
    """
    value = graph.values[name]
    layout = value.layout or image_layout(value.type.static_shape)
    if layout is None:
        raise CompileError(f"{name!r} has {len(value.shape)} dimensions; at most 4 are packed")
    return layout


def lies_as(graph: Graph, name: str, layout: Layout, config: Config) -> bool:
    """Whether a value's packed bytes are what another layout of it says."""
    own = packed_axes(layout_of_value(graph, name), config)
    return own == packed_axes(layout, config)
