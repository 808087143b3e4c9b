"""QLinear operators, ONNX's and onnxruntime's, as DequantizeLinear, the operator, QuantizeLinear.

Fusion then makes the same quantized operator of them as of a model in QDQ form.  Input orders
are those of onnxruntime's docs/ContribOperators.md.
"""

from dataclasses import replace

import numpy as np

from tilewright.compiler.frontend.builder import GraphBuilder
from tilewright.compiler.frontend.normalize import window_attributes
from tilewright.compiler.frontend.onnx_node import (
    OnnxNode,
    constant_input,
    make_quantization,
    quantization_of,
    stored_dtype,
)
from tilewright.compiler.frontend.rules import Rule, add_global_pool, pool
from tilewright.hw.errors import ModelError
from tilewright.runtime.attributes import get_float, get_int
from tilewright.runtime.program import Attribute
from tilewright.runtime.tensor import Quantization, TensorType


def _real(
    b: GraphBuilder, node: OnnxNode, x: int, scale: int, zero_point: int, *, axis: int | None = None
) -> str:
    """Append the DequantizeLinear of input x and return the real value's name."""
    tensor = node.inputs[x]
    quantization = quantization_of(b, node, scale, zero_point, axis=axis, tensor=tensor)
    return _dequantized(b, node, x, quantization)


def _dequantized(b: GraphBuilder, node: OnnxNode, x: int, quantization: Quantization) -> str:
    name = b.fresh(f"{node.inputs[x]}.real")
    b.dequantize(node.inputs[x], name, quantization, origin=node.name)
    return name


def _store(b: GraphBuilder, node: OnnxNode, y: str, scale: int, zero_point: int) -> None:
    """Append the QuantizeLinear of y to the node's output."""
    dtype = stored_dtype(b, node, zero_point)
    kind = TensorType(dtype, (), quantization_of(b, node, scale, zero_point))
    b.quantize(y, node.outputs[0], kind, origin=node.name)


def _fresh_output(b: GraphBuilder, node: OnnxNode) -> str:
    return b.fresh(f"{node.outputs[0]}.real")


def _bias_quantization(b: GraphBuilder, node: OnnxNode, alpha: float = 1.0) -> Quantization:
    x = np.float32(constant_input(b, node, 1, "scale").reshape(-1)[0])
    w = constant_input(b, node, 4, "scale").astype(np.float32).reshape(-1)
    with np.errstate(over="ignore", under="ignore"):
        scales = np.float32(alpha) * x * w
    return make_quantization(node, scales, np.zeros(1, np.int64), 0)


def _check_bias(b: GraphBuilder, node: OnnxNode, index: int) -> None:
    kind = b.type(node.inputs[index])
    if kind.dtype != "int32":
        raise ModelError(f"{node}: its bias {node.inputs[index]!r} is {kind.dtype}, not int32")


def qlinear_conv(b: GraphBuilder, node: OnnxNode) -> None:
    """QLinearConv(x, sx, zx, w, sw, zw, sy, zy, bias)."""
    kernel = tuple(int(d) for d in b.type(node.inputs[3]).shape[2:])
    attributes = window_attributes(b, node, node.inputs[0], kernel)
    attributes["group"] = get_int(node.attributes, "group", 1)
    inputs = [_real(b, node, 0, 1, 2), _real(b, node, 3, 4, 5, axis=0)]
    if node.input(8):
        _check_bias(b, node, 8)
        inputs.append(_dequantized(b, node, 8, _bias_quantization(b, node)))
    y = _fresh_output(b, node)
    b.node("Conv", inputs, [y], attributes, origin=node.name)
    _store(b, node, y, 6, 7)


def qlinear_matmul(b: GraphBuilder, node: OnnxNode) -> None:
    """QLinearMatMul(x, sx, zx, w, sw, zw, sy, zy)."""
    last = len(b.type(node.inputs[3]).shape) - 1
    inputs = [_real(b, node, 0, 1, 2), _real(b, node, 3, 4, 5, axis=last)]
    y = _fresh_output(b, node)
    b.node("MatMul", inputs, [y], origin=node.name)
    _store(b, node, y, 6, 7)


def qgemm(b: GraphBuilder, node: OnnxNode) -> None:
    """QGemm(x, sx, zx, w, sw, zw, bias, sy, zy): the bias has the scale alpha · sx · sw."""
    trans_b = get_int(node.attributes, "transB", 0)
    alpha = get_float(node.attributes, "alpha", 1.0)
    if alpha <= 0:
        raise ModelError(f"{node}: alpha={alpha:g} is not supported; it has to be positive")
    inputs = [_real(b, node, 0, 1, 2), _real(b, node, 3, 4, 5, axis=0 if trans_b else 1)]
    if node.input(6):
        _check_bias(b, node, 6)
        quantization = _bias_quantization(b, node, alpha)
        if quantization.axis is not None:
            rank = len(b.type(node.inputs[6]).shape)
            quantization = replace(quantization, axis=rank - 1)
        inputs.append(_dequantized(b, node, 6, quantization))
    trans_a = get_int(node.attributes, "transA", 0)
    attributes: dict[str, Attribute] = {"alpha": alpha, "transA": trans_a, "transB": trans_b}
    if node.input(7):
        y = _fresh_output(b, node)
        b.node("Gemm", inputs, [y], attributes, origin=node.name)
        _store(b, node, y, 7, 8)
    else:
        b.node("Gemm", inputs, node.outputs, attributes, origin=node.name)


def _refuse_channels_last(node: OnnxNode) -> None:
    if get_int(node.attributes, "channels_last", 0):
        raise ModelError(f"{node}: channels_last=1 is not supported; export it channels first")


def qlinear_average_pool(b: GraphBuilder, node: OnnxNode) -> None:
    """QLinearAveragePool(x, sx, zx, sy, zy)."""
    _refuse_channels_last(node)
    x, y = _real(b, node, 0, 1, 2), _fresh_output(b, node)
    pool(b, replace(node, op="AveragePool", inputs=(x,), outputs=(y,)))
    _store(b, node, y, 3, 4)


def qlinear_global_average_pool(b: GraphBuilder, node: OnnxNode) -> None:
    """QLinearGlobalAveragePool(x, sx, zx, sy, zy)."""
    _refuse_channels_last(node)
    x, y = _real(b, node, 0, 1, 2), _fresh_output(b, node)
    add_global_pool(b, "AveragePool", x, y, node)
    _store(b, node, y, 3, 4)


def qlinear_binary(b: GraphBuilder, node: OnnxNode) -> None:
    """QLinearAdd and QLinearMul(a, sa, za, b, sb, zb, sy, zy)."""
    inputs, y = [_real(b, node, 0, 1, 2), _real(b, node, 3, 4, 5)], _fresh_output(b, node)
    b.node(node.op.removeprefix("QLinear"), inputs, [y], origin=node.name)
    _store(b, node, y, 6, 7)


def qlinear_unary(b: GraphBuilder, node: OnnxNode) -> None:
    """QLinearSigmoid, QLinearLeakyRelu and QLinearSoftmax(x, sx, zx, sy, zy)."""
    x, y = _real(b, node, 0, 1, 2), _fresh_output(b, node)
    op = node.op.removeprefix("QLinear")
    attributes = {k: v for k, v in node.attributes.items() if k in {"alpha", "axis"}}
    if op == "Softmax":
        rank = len(b.type(x).shape)
        opset = get_int(node.attributes, "opset", 13)
        attributes["axis"] = get_int(attributes, "axis", -1 if opset >= 13 else 1) % rank
        if opset < 13 and attributes["axis"] != rank - 1:
            raise ModelError(f"{node}: opset={opset} with an axis that is not the last")
    b.node(op, [x], [y], attributes, origin=node.name)
    _store(b, node, y, 3, 4)


def qlinear_concat(b: GraphBuilder, node: OnnxNode) -> None:
    """QLinearConcat(sy, zy, then x, sx, zx for each part)."""
    parts = [_real(b, node, i, i + 1, i + 2) for i in range(2, len(node.inputs), 3)]
    y = _fresh_output(b, node)
    b.node("Concat", parts, [y], {"axis": get_int(node.attributes, "axis")}, origin=node.name)
    _store(b, node, y, 0, 1)


QLINEAR_RULES: dict[str, Rule] = {
    "QLinearConv": qlinear_conv,
    "QLinearMatMul": qlinear_matmul,
}
"""Of ONNX itself."""

MICROSOFT_RULES: dict[str, Rule] = {
    "QGemm": qgemm,
    "QLinearAdd": qlinear_binary,
    "QLinearAveragePool": qlinear_average_pool,
    "QLinearConcat": qlinear_concat,
    "QLinearGlobalAveragePool": qlinear_global_average_pool,
    "QLinearLeakyRelu": qlinear_unary,
    "QLinearMul": qlinear_binary,
    "QLinearSigmoid": qlinear_unary,
    "QLinearSoftmax": qlinear_unary,
}
"""Of onnxruntime's domain com.microsoft."""
