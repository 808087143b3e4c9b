"""Import rules for ONNX operators; those without one keep their name and attributes."""

import math
from collections.abc import Callable

import numpy as np

from tilewright.compiler.frontend.builder import GraphBuilder
from tilewright.compiler.frontend.normalize import (
    arguments,
    counted,
    from_the_front,
    pad_attributes,
    split_sizes,
    window_attributes,
)
from tilewright.compiler.frontend.onnx_node import (
    DTYPES,
    OnnxNode,
    constant_input,
    make_quantization,
    quantization_of,
    stored_dtype,
)
from tilewright.compiler.ir.operators import REDUCTIONS
from tilewright.hw.errors import ModelError
from tilewright.runtime.attributes import get_int, get_ints
from tilewright.runtime.program import Attribute
from tilewright.runtime.tensor import Array, TensorType

Rule = Callable[[GraphBuilder, OnnxNode], None]


def keep(b: GraphBuilder, node: OnnxNode) -> None:
    """Import a node as it is, constant arguments turned into attributes."""
    attributes = arguments(b, node)
    inputs = node.inputs if len(attributes) == len(node.attributes) else node.inputs[:1]
    attributes = from_the_front(b, node, attributes)
    if node.op in {"BatchNormalization", "LayerNormalization", "Dropout"}:
        _emit(b, node, inputs, attributes, outputs=node.outputs[:1])
    else:
        _emit(b, node, inputs, attributes)


def _emit(
    b: GraphBuilder,
    node: OnnxNode,
    inputs: tuple[str, ...],
    attributes: dict[
        str, int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]
    ],
    *,
    op: str = "",
    outputs: tuple[str, ...] = (),
) -> None:
    b.node(op or node.op, inputs, outputs or node.outputs, attributes, origin=node.name)


def identity(b: GraphBuilder, node: OnnxNode) -> None:
    """Identity, and Dropout at inference."""
    if node.input(2) and constant_input(b, node, 2, "training_mode").any():
        raise ModelError(f"{node}: training_mode is set; export the model for inference")
    _emit(b, node, node.inputs[:1], {}, op="Identity", outputs=node.outputs[:1])


def constant(b: GraphBuilder, node: OnnxNode) -> None:
    """Constant (ONNX opset 12 and later: seven attributes, one of them given)."""
    given = node.attributes
    array: Array
    if "value" in node.tensors:
        array = node.tensors["value"]
    elif "value_float" in given or "value_floats" in given:
        array = np.array(given.get("value_float", given.get("value_floats")), np.float32)
    elif "value_int" in given or "value_ints" in given:
        array = np.array(given.get("value_int", given.get("value_ints")), np.int64)
    else:
        raise ModelError(f"{node}: only tensors and numbers are supported as its value")
    b.constant(node.outputs[0], array)


def constant_of_shape(b: GraphBuilder, node: OnnxNode) -> None:
    """ConstantOfShape with a constant shape."""
    shape = constant_input(b, node, 0, "shape")
    value = node.tensors.get("value", np.zeros(1, np.float32))
    b.constant(node.outputs[0], np.full(tuple(shape.tolist()), value.reshape(-1)[0], value.dtype))


def quantize_linear(b: GraphBuilder, node: OnnxNode) -> None:
    """QuantizeLinear: scale and zero point go into the output's type."""
    _refuse_blocks(node)
    x = node.inputs[0]
    axis = _channel_axis(b, node)
    dtype = stored_dtype(b, node, 2)
    if not node.input(2) and get_int(node.attributes, "output_dtype", 0):
        dtype = _dtype(node, "output_dtype")
    kind = TensorType(dtype, (), quantization_of(b, node, 1, 2, axis=axis))
    b.quantize(x, node.outputs[0], kind, origin=node.name)


def dequantize_linear(b: GraphBuilder, node: OnnxNode) -> None:
    """DequantizeLinear: scale and zero point go into the input's type."""
    _refuse_blocks(node)
    x = node.inputs[0]
    axis = _channel_axis(b, node)
    quantization = quantization_of(b, node, 1, 2, axis=axis, tensor=x)
    b.dequantize(x, node.outputs[0], quantization, origin=node.name)


def _channel_axis(b: GraphBuilder, node: OnnxNode) -> int:
    """Return the axis of a scale a channel; with one scale its value does not matter."""
    axis, rank = get_int(node.attributes, "axis", 1), len(b.type(node.inputs[0]).shape)
    if constant_input(b, node, 1, "scale").size > 1:
        (axis,) = counted(node, (axis,), rank)
    return axis


def _refuse_blocks(node: OnnxNode) -> None:
    if get_int(node.attributes, "block_size", 0):
        raise ModelError(f"{node}: block_size is not supported; quantize per tensor or channel")


def _dtype(node: OnnxNode, key: str) -> str:
    code = get_int(node.attributes, key)
    if code not in DTYPES:
        raise ModelError(f"{node}: {key}={code}: this element type is not supported")
    return DTYPES[code]


def cast(b: GraphBuilder, node: OnnxNode) -> None:
    """Cast."""
    _emit(b, node, node.inputs, {"dtype": _dtype(node, "to")})


def conv(b: GraphBuilder, node: OnnxNode) -> None:
    """Conv: every attribute written out."""
    kernel = tuple(int(d) for d in b.type(node.inputs[1]).shape[2:])
    attributes = window_attributes(b, node, node.inputs[0], kernel)
    attributes["group"] = get_int(node.attributes, "group", 1)
    _emit(b, node, node.inputs, attributes)


def pool(b: GraphBuilder, node: OnnxNode) -> None:
    """AveragePool and MaxPool; the second output of MaxPool is refused."""
    if len(node.outputs) > 1 and node.outputs[1]:
        raise ModelError(f"{node}: its output of indices is not supported")
    attributes = window_attributes(b, node, node.inputs[0], None)
    inputs = node.inputs
    if node.op == "AveragePool":
        attributes["count_include_pad"] = get_int(node.attributes, "count_include_pad", 0)
        inputs = _apart_from_ceil(b, node, attributes)
    _emit(b, node, inputs, attributes, outputs=node.outputs[:1])


def _apart_from_ceil(
    b: GraphBuilder, node: OnnxNode, attributes: dict[str, Attribute]
) -> tuple[str, ...]:
    """Where padding counts but what ceil_mode adds does not: a Pad for the former.

    Returns the pool's inputs and leaves the latter in its attributes.  onnxruntime's
    QLinearAveragePool counts both.
    """
    resolved = get_ints(attributes, "pads")
    given = get_ints(node.attributes, "pads", (0,) * len(resolved))
    automatic = str(node.attributes.get("auto_pad", "NOTSET")) != "NOTSET"
    one_kind = bool(node.domain) or not attributes["count_include_pad"]
    if automatic or one_kind or given == resolved:
        return node.inputs
    half, padded = len(given) // 2, b.fresh(f"{node.inputs[0]}.padded")
    pads = (0, 0, *given[:half], 0, 0, *given[half:])
    table: dict[str, Attribute] = {"pads": pads, "mode": "constant", "value": 0.0}
    b.node("Pad", node.inputs[:1], [padded], table, origin=node.name)
    attributes["count_include_pad"] = 0
    attributes["pads"] = tuple(r - g for r, g in zip(resolved, given, strict=True))
    return (padded,)


def global_pool(b: GraphBuilder, node: OnnxNode) -> None:
    """GlobalAveragePool and GlobalMaxPool: pooling over all of H×W."""
    op = node.op.removeprefix("Global")
    add_global_pool(b, op, node.inputs[0], node.outputs[0], node)


def add_global_pool(b: GraphBuilder, op: str, x: str, y: str, node: OnnxNode) -> None:
    """Append the pooling `op` of x over its whole spatial extent."""
    spatial = b.type(x).shape[2:]
    sizes = tuple(d for d in spatial if isinstance(d, int))
    if len(sizes) != len(spatial):
        raise ModelError(f"{node}: its input {b.type(x)} needs fixed spatial dimensions")
    ones = (1,) * len(sizes)
    b.node(
        op,
        [x],
        [y],
        {
            "kernel_shape": sizes,
            "strides": ones,
            "dilations": ones,
            "pads": (0,) * (2 * len(sizes)),
            **({"count_include_pad": 0} if op == "AveragePool" else {}),
        },
        origin=node.name,
    )


def pad(b: GraphBuilder, node: OnnxNode) -> None:
    """Pad over all axes."""
    _emit(b, node, node.inputs[:1], pad_attributes(b, node))


def split(b: GraphBuilder, node: OnnxNode) -> None:
    """Split: one Slice for each part."""
    axis, sizes = split_sizes(b, node)
    if len(sizes) != len(node.outputs):
        raise ModelError(f"{node}: {len(sizes)} part sizes for {len(node.outputs)} outputs")
    start = 0
    for output, size in zip(node.outputs, sizes, strict=True):
        bounds: dict[str, Attribute] = {"starts": (start,), "ends": (start + size,)}
        if output:
            table = {**bounds, "axes": (axis,), "steps": (1,)}
            b.node("Slice", node.inputs[:1], [output], table, origin=node.name)
        start += size


def concat(b: GraphBuilder, node: OnnxNode) -> None:
    """Concat; parts that are stored integers have to share a scale."""
    kinds = [b.type(name) for name in node.inputs]
    known = {kind.quantization for kind in kinds if kind.quantization}
    if len(known) > 1:
        raise ModelError(
            f"{node}: its parts are integers of different scales ({', '.join(map(str, known))});"
            " join them between DequantizeLinear and QuantizeLinear"
        )
    attributes = from_the_front(b, node, dict(node.attributes))
    quantization = next(iter(known), None)
    b.node(
        "Concat",
        node.inputs,
        node.outputs,
        attributes,
        origin=node.name,
        quantization=quantization,
    )


def reduce(b: GraphBuilder, node: OnnxNode) -> None:
    """Reductions: no axes means all of them, or with noop_with_empty_axes none."""
    attributes = arguments(b, node)
    noop = get_int(attributes, "noop_with_empty_axes", 0)
    axes = get_ints(attributes, "axes", ())
    if not axes and noop:
        raise ModelError(f"{node}: noop_with_empty_axes=1 without axes; leave the node out")
    kept: dict[str, Attribute] = {"keepdims": get_int(attributes, "keepdims", 1)}
    rank = len(b.type(node.inputs[0]).shape)
    kept["axes"] = tuple(sorted(counted(node, axes, rank))) if axes else tuple(range(rank))
    if node.op == "ReduceMean" and rank == 4 and kept["axes"] == (2, 3):
        _reduce_to_pool(b, node, keep=bool(kept["keepdims"]))
        return
    _emit(b, node, node.inputs[:1], kept)


def _reduce_to_pool(b: GraphBuilder, node: OnnxNode, *, keep: bool) -> None:
    """The mean over H×W is a global average pool."""
    x, y = node.inputs[0], node.outputs[0]
    pooled = y if keep else b.fresh(f"{y}.pooled")
    add_global_pool(b, "AveragePool", x, pooled, node)
    if not keep:
        b.node("Squeeze", [pooled], [y], {"axes": (2, 3)}, origin=node.name)


def softmax(b: GraphBuilder, node: OnnxNode) -> None:
    """Softmax and LogSoftmax; before opset 13 over all axes from `axis` on."""
    rank = len(b.type(node.inputs[0]).shape)
    (axis,) = counted(
        node, (get_int(node.attributes, "axis", -1 if node.opset >= 13 else 1),), rank
    )
    if node.opset < 13 and axis != rank - 1:
        raise ModelError(f"{node}: axis={axis} of opset {node.opset}; convert to opset 13")
    _emit(b, node, node.inputs, {"axis": axis})


def clip(b: GraphBuilder, node: OnnxNode) -> None:
    """Clip: min and max as attributes, absent ones left out; min above max means max."""
    given = arguments(b, node)
    bounds = {k: v for k, v in given.items() if isinstance(v, int | float) and math.isfinite(v)}
    if "min" in bounds and "max" in bounds:
        bounds["min"] = min(bounds["min"], bounds["max"])
    _emit(b, node, node.inputs[:1], dict(bounds))


def matmul_integer(b: GraphBuilder, node: OnnxNode) -> None:
    """MatMulInteger: a MatMul whose output is its int32 accumulators."""
    x = _with_zero_point(b, node, 0, 2, None)
    w = _with_zero_point(b, node, 1, 3, len(b.type(node.inputs[1]).shape) - 1)
    b.node("MatMul", [x, w, ""], node.outputs, origin=node.name, dtype="int32")


def conv_integer(b: GraphBuilder, node: OnnxNode) -> None:
    """ConvInteger: a Conv whose output is its int32 accumulators."""
    x = _with_zero_point(b, node, 0, 2, None)
    w = _with_zero_point(b, node, 1, 3, 0)
    kernel = tuple(int(d) for d in b.type(w).shape[2:])
    attributes = window_attributes(b, node, x, kernel)
    attributes["group"] = get_int(node.attributes, "group", 1)
    b.node("Conv", [x, w, ""], node.outputs, attributes, origin=node.name, dtype="int32")


def _with_zero_point(
    b: GraphBuilder, node: OnnxNode, index: int, zero_point: int, axis: int | None
) -> str:
    x = node.inputs[index]
    zeros = np.zeros(1, np.int64)
    if node.input(zero_point):
        zeros = constant_input(b, node, zero_point, "zero point").astype(np.int64).reshape(-1)
    if index and x in b.constants and b.type(x).dtype == "uint8":
        signed = (b.constants[x].astype(np.int16) - 128).astype(np.int8)
        x, zeros = b.constant(b.fresh(f"{x}.signed"), signed), zeros - 128
    kind = b.type(x).quantization
    if kind is not None and kind.zero_point == tuple(zeros.tolist()):
        return x
    quantization = make_quantization(node, np.ones(1), zeros, axis)
    return b.with_quantization(x, quantization, origin=node.name)


RULES: dict[str, Rule] = {
    **dict.fromkeys(REDUCTIONS, reduce),
    "AveragePool": pool,
    "Cast": cast,
    "Clip": clip,
    "Concat": concat,
    "Constant": constant,
    "ConstantOfShape": constant_of_shape,
    "Conv": conv,
    "ConvInteger": conv_integer,
    "DequantizeLinear": dequantize_linear,
    "Dropout": identity,
    "GlobalAveragePool": global_pool,
    "GlobalMaxPool": global_pool,
    "Identity": identity,
    "LogSoftmax": softmax,
    "MatMulInteger": matmul_integer,
    "MaxPool": pool,
    "Pad": pad,
    "QuantizeLinear": quantize_linear,
    "Softmax": softmax,
    "Split": split,
}
