"""One ONNX node, unpacked: what the import rules look at."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import onnx

from tilewright.compiler.frontend.builder import GraphBuilder
from tilewright.hw.errors import ModelError
from tilewright.runtime.program import Attribute
from tilewright.runtime.tensor import Array, Quantization

DTYPES: Mapping[int, str] = {
    onnx.TensorProto.FLOAT: "float32",
    onnx.TensorProto.UINT8: "uint8",
    onnx.TensorProto.INT8: "int8",
    onnx.TensorProto.UINT16: "uint16",
    onnx.TensorProto.INT16: "int16",
    onnx.TensorProto.INT32: "int32",
    onnx.TensorProto.INT64: "int64",
    onnx.TensorProto.BOOL: "bool",
    onnx.TensorProto.FLOAT16: "float16",
    onnx.TensorProto.DOUBLE: "float64",
}


@dataclass(frozen=True, slots=True)
class OnnxNode:
    """A node with its attributes as Python values; `name` is unique in the model.

    `tensors` holds the attributes that are tensors.  Trailing absent inputs are dropped.
    """

    op: str
    domain: str
    opset: int
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute]
    tensors: Mapping[str, Array]

    def input(self, index: int) -> str:
        """Return an input's value name, or "" when it is absent."""
        return self.inputs[index] if index < len(self.inputs) else ""

    def __str__(self) -> str:
        """Return how errors name it."""
        return f"node {self.name!r}: {self.op}"


def unpack(proto: onnx.NodeProto, *, name: str, opset: int) -> OnnxNode:
    """Return the node; attributes of other kinds (graphs) are left out."""
    attributes: dict[str, Attribute] = {}
    tensors: dict[str, Array] = {}
    kinds = onnx.AttributeProto
    for a in proto.attribute:
        match a.type:
            case kinds.INT:
                attributes[a.name] = int(a.i)
            case kinds.FLOAT:
                attributes[a.name] = float(a.f)
            case kinds.STRING:
                attributes[a.name] = a.s.decode(errors="replace")
            case kinds.INTS:
                attributes[a.name] = tuple(int(v) for v in a.ints)
            case kinds.FLOATS:
                attributes[a.name] = tuple(float(v) for v in a.floats)
            case kinds.STRINGS:
                attributes[a.name] = tuple(v.decode(errors="replace") for v in a.strings)
            case kinds.TENSOR:
                tensors[a.name] = onnx.numpy_helper.to_array(a.t)
            case _:
                pass
    inputs = list(proto.input)
    while inputs and not inputs[-1]:
        inputs.pop()
    domain = "" if proto.domain == "ai.onnx" else proto.domain
    outputs = tuple(proto.output)
    return OnnxNode(proto.op_type, domain, opset, name, tuple(inputs), outputs, attributes, tensors)


def constant_input(b: GraphBuilder, node: OnnxNode, index: int, what: str) -> Array:
    """Return the value of an input that must be a constant.

    Raises:
        ModelError: it is absent, or computed at run time.
    """
    name = node.input(index)
    if name not in b.constants:
        raise ModelError(
            f"{node}: its {what} {name!r} is not a constant; export the model with fixed values"
        )
    return b.constants[name]


def quantization_of(
    b: GraphBuilder,
    node: OnnxNode,
    scale: int,
    zero_point: int,
    *,
    axis: int | None = None,
    tensor: str = "",
) -> Quantization:
    """Return the quantization that two inputs of a node give; `axis` counts from the front.

    Raises:
        ModelError: no constants, or not those of `tensor`: its element type, one a channel.
    """
    scales = constant_input(b, node, scale, "scale").astype(np.float64).reshape(-1)
    zeros = np.zeros(1, np.int64)
    if node.input(zero_point):
        given, own = b.type(node.input(zero_point)).dtype, tensor and b.type(tensor).dtype
        if own and given != own:
            raise ModelError(f"{node}: its zero point is {given}, its tensor {tensor!r} {own}")
        zeros = constant_input(b, node, zero_point, "zero point").astype(np.int64).reshape(-1)
    result = make_quantization(node, scales, zeros, axis)
    sizes = b.type(tensor).shape if tensor else ()
    if result.axis is not None and sizes and sizes[result.axis] != len(result.scale):
        raise ModelError(
            f"{node}: {len(result.scale)} scales for axis {result.axis} of {b.type(tensor)}"
        )
    return result


def make_quantization(
    node: OnnxNode, scales: Array, zeros: Array, axis: int | None
) -> Quantization:
    """Return a quantization, per tensor when there is one scale and one zero point."""
    count = max(scales.size, zeros.size)
    if not {scales.size, zeros.size} <= {1, count}:
        raise ModelError(f"{node}: {scales.size} scales and {zeros.size} zero points")
    if count > 1 and axis is None:
        raise ModelError(f"{node}: {count} scales for a tensor that takes one")
    try:
        return Quantization(
            tuple(float(s) for s in np.broadcast_to(scales, (count,))),
            tuple(int(z) for z in np.broadcast_to(zeros, (count,))),
            axis if count > 1 else None,
        )
    except ModelError as error:
        raise ModelError(f"{node}: {error}") from None


def stored_dtype(b: GraphBuilder, node: OnnxNode, zero_point: int) -> str:
    """Return the element type that a zero-point input implies; uint8 when it is absent."""
    name = node.input(zero_point)
    return b.type(name).dtype if name else "uint8"
