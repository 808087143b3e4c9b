"""An independent oracle for quantized LeNet-5-like models: int64 NumPy on the ONNX file itself.

It imports nothing of tilewright.  Each operator is computed from the definition: integer sums
in int64, one rational scale `numerator / denominator` per channel, rounding half to even on
exact Python-sized integers (held in object-free int64 where they fit), then the zero point,
then saturation.
"""

from pathlib import Path

import numpy as np
import onnx
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from onnx import numpy_helper

Array = NDArray[np.generic]


def _rational(ratio: float) -> tuple[int, int]:
    """A float as integer numerator and power-of-two denominator, exactly."""
    return float(ratio).as_integer_ratio()


def _round_half_even(numerator: Array, denominator: int) -> Array:
    quotient, rest = np.divmod(numerator, denominator)
    twice = 2 * rest
    return quotient + ((twice > denominator) | ((twice == denominator) & (quotient % 2 == 1)))


def _rescale(total: Array, ratios: NDArray[np.float64], zero_point: int, dtype: np.dtype) -> Array:
    """Channels lie on axis 1 of `total`; ratios has one entry, or one a channel."""
    ratios = np.broadcast_to(ratios, total.shape[1:2])
    channels = []
    for c, ratio in enumerate(ratios):
        numerator, denominator = _rational(ratio)
        channels.append(_round_half_even(total[:, c] * numerator, denominator))
    info = np.iinfo(dtype)
    return np.clip(np.stack(channels, axis=1) + zero_point, info.min, info.max).astype(dtype)


def _windows(x: Array, kernel: tuple[int, int], strides: tuple[int, int]) -> Array:
    return sliding_window_view(x, kernel, axis=(2, 3))[:, :, :: strides[0], :: strides[1]]


def _convolve(x: Array, w: Array, bias: Array, pads: list[int]) -> Array:
    """x and w centred (zero point subtracted), int64."""
    x = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    windows = _windows(x, (w.shape[2], w.shape[3]), (1, 1))
    n, _, h, wd = windows.shape[:4]
    rows = windows.transpose(0, 2, 3, 1, 4, 5).reshape(n * h * wd, -1)
    # int64 matmul in float64 is exact here: |sum| < 2^53 by far.
    flat = rows.astype(np.float64) @ w.reshape(w.shape[0], -1).T.astype(np.float64)
    total = flat.astype(np.int64).reshape(n, h, wd, -1).transpose(0, 3, 1, 2)
    return total + bias.reshape(1, -1, 1, 1)


class Oracle:
    """Runs one model; `tensors` holds every integer tensor by its name in the file."""

    def __init__(self, path: Path | str) -> None:
        self.model = onnx.load(path)
        graph = self.model.graph
        self.constants = {i.name: numpy_helper.to_array(i) for i in graph.initializer}
        self.tensors: dict[str, Array] = {}

    def run(self, image: Array) -> Array:
        """float32[n, 1, 28, 28] → float32[n, 10]."""
        graph = self.model.graph
        self.tensors = {graph.input[0].name: image}
        real: dict[str, str] = {}  # name of a real tensor → its quantized tensor
        dequantize = {n.output[0]: n for n in graph.node if n.op_type == "DequantizeLinear"}
        for node in graph.node:
            a = {x.name: onnx.helper.get_attribute_value(x) for x in node.attribute}
            if node.op_type == "QuantizeLinear" and node.input[0] in self.tensors:
                self.tensors[node.output[0]] = self._quantize(
                    self.tensors[node.input[0]], node.input[1:]
                )
            elif node.op_type == "DequantizeLinear":
                real[node.output[0]] = node.input[0]
            elif all(name in dequantize for name in node.input):
                quantize = next(n for n in graph.node if n.input and n.input[0] == node.output[0])
                operands = [dequantize[name] for name in node.input]
                x, *rest = [
                    (
                        self._value(d.input[0]),
                        self.constants[d.input[1]],
                        self.constants[d.input[2]],
                    )
                    for d in operands
                ]
                y_scale, y_zero = (self.constants[name] for name in quantize.input[1:3])
                self.tensors[quantize.output[0]] = self._operator(
                    node.op_type, a, x, rest, y_scale, y_zero
                )
            elif node.op_type == "QLinearConv":
                v = [self._value(name) for name in node.input]
                self.tensors[node.output[0]] = self._operator(
                    "Conv", a, tuple(v[0:3]), [tuple(v[3:6]), (v[8], None, None)], v[6], v[7]
                )
            elif node.op_type == "QGemm":
                v = [self._value(name) for name in node.input]
                self.tensors[node.output[0]] = self._operator(
                    "Gemm", a, tuple(v[0:3]), [tuple(v[3:6]), (v[6], None, None)], v[7], v[8]
                )
            elif node.op_type == "QLinearAveragePool":
                v = [self._value(name) for name in node.input]
                self.tensors[node.output[0]] = self._operator(
                    "AveragePool", a, tuple(v[0:3]), [], v[3], v[4]
                )
        final = graph.node[-1]
        scale, zero = self.constants[final.input[1]], self.constants[final.input[2]]
        stored = self.tensors[final.input[0]].astype(np.int32) - np.int32(zero)
        if final.op_type != "DequantizeLinear":
            raise AssertionError(final.op_type)
        return stored.astype(np.float32) * scale

    def _value(self, name: str) -> Array:
        if name in self.constants:
            return self.constants[name]
        flat = next(
            (n for n in self.model.graph.node if n.op_type == "Flatten" and n.output[0] == name),
            None,
        )
        if flat is not None and name not in self.tensors:
            x = self.tensors[flat.input[0]]
            self.tensors[name] = x.reshape(len(x), -1)
        return self.tensors[name]

    def _quantize(self, x: Array, names: list[str]) -> Array:
        scale, zero = (self.constants[name] for name in names)
        info = np.iinfo(zero.dtype)
        return np.clip(np.rint(x / scale).astype(np.int64) + int(zero), info.min, info.max).astype(
            zero.dtype
        )

    def _operator(
        self, op: str, a: dict, x: tuple, rest: list, y_scale: Array, y_zero: Array
    ) -> Array:
        value, scale, zero = x
        centred = value.astype(np.int64) - int(zero)
        f32 = np.float32
        if op == "Flatten":
            return value.reshape(len(value), -1)
        if op == "AveragePool":
            kernel, strides = a["kernel_shape"], a.get("strides", [1, 1])
            total = _windows(centred, tuple(kernel), tuple(strides)).sum(axis=(-1, -2))
            # Real ratio to 24 bits: sum / count · x_scale / y_scale.
            ratio = float(scale) / (float(y_scale) * kernel[0] * kernel[1])
            mantissa, exponent = np.frexp(ratio)
            ratio = np.ldexp(np.rint(np.ldexp(mantissa, 24)), exponent - 24)
            return _rescale(total, np.array([ratio]), int(y_zero), y_zero.dtype)
        (w, w_scale, w_zero), (bias, *_) = rest
        if op == "Conv":
            shape = (-1,) + (1,) * (w.ndim - 1)
            w64 = w.astype(np.int64) - np.asarray(w_zero, np.int64).reshape(
                shape if np.ndim(w_zero) else ()
            )
            total = _convolve(centred, w64, bias.astype(np.int64), a.get("pads", [0, 0, 0, 0]))
        else:
            total = centred @ (w.astype(np.int64) - np.asarray(w_zero, np.int64)) + bias.astype(
                np.int64
            )
        ratios = (f32(scale) * w_scale.astype(f32)) / f32(y_scale)
        return _rescale(total, np.atleast_1d(ratios).astype(np.float64), int(y_zero), y_zero.dtype)
