"""QuantizeLinear, DequantizeLinear, and float kernels applied to stored integers.

ONNX QuantizeLinear: saturate(round_half_even(x / scale) + zero_point), in float32.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tilewright.runtime.attributes import Attributes, get_int
from tilewright.runtime.host.kernel import (
    ArrayKernel,
    Inputs,
    InputTypes,
    Kernel,
    Numbers,
    OutputTypes,
    required,
    typed,
)
from tilewright.runtime.tensor import Array, Quantization, TensorType


def along_axis(values: Sequence[float], axis: int | None, rank: int, dtype: str) -> Numbers:
    """Return per-channel values shaped to broadcast against a tensor of this rank."""
    array = np.array(values, dtype)
    return array.reshape(()) if axis is None else array.reshape((-1,) + (1,) * (rank - 1 - axis))


def quantize(x: Numbers, kind: TensorType) -> Numbers:
    """Return the stored integers of real x, in `kind`'s element type; NaN gives the least."""
    q = _quantization(kind)
    scale = along_axis(q.scale, q.axis, x.ndim, "float32")
    zero_point = along_axis(q.zero_point, q.axis, x.ndim, "float64")
    info = np.iinfo(np.dtype(kind.dtype))
    with np.errstate(over="ignore"):  # A quotient out of float32's range is ∞, and saturates.
        stored = np.rint(x.astype(np.float32) / scale).astype(np.float64) + zero_point
    stored = np.where(np.isnan(stored), info.min, stored)
    return np.clip(stored, info.min, info.max).astype(kind.dtype)


def dequantize(x: Numbers, kind: TensorType) -> NDArray[np.float32]:
    """Return (x − zero_point) · scale in float32."""
    q = _quantization(kind)
    scale = along_axis(q.scale, q.axis, x.ndim, "float32")
    zero_point = along_axis(q.zero_point, q.axis, x.ndim, "int64")
    return np.asarray((x.astype(np.int64) - zero_point).astype(np.float32) * scale, np.float32)


def _quantization(kind: TensorType) -> Quantization:
    return kind.quantization or Quantization((1.0,), (0,))


def _clamped(x: Numbers, attributes: Attributes) -> Numbers:
    info = np.iinfo(x.dtype)
    low, high = get_int(attributes, "low", info.min), get_int(attributes, "high", info.max)
    return np.clip(x, low, high)


def on_real_values(kernel: ArrayKernel) -> Kernel:
    """Return a kernel that dequantizes quantized inputs and quantizes quantized outputs.

    Quantized outputs are clamped to the attributes low and high.  Overflow and NaN follow IEEE
    754, as in ONNX, without a warning.
    """

    def run(
        inputs: Inputs, attributes: Attributes, kinds: InputTypes, out: OutputTypes
    ) -> list[Array]:
        real = [
            dequantize(x, kind) if x is not None and kind is not None and kind.quantization else x
            for x, kind in zip(inputs, kinds, strict=True)
        ]
        with np.errstate(all="ignore"):
            results = kernel(real, attributes)
            return [
                _clamped(quantize(y, kind), attributes) if kind.quantization else y
                for y, kind in zip(results, out, strict=True)
            ]

    return run


def _quantize_linear(
    inputs: Inputs, _: Attributes, __: InputTypes, out: OutputTypes
) -> list[Array]:
    return [quantize(required(inputs, 0), out[0])]


def _dequantize_linear(
    inputs: Inputs, _: Attributes, kinds: InputTypes, __: OutputTypes
) -> list[Array]:
    return [dequantize(required(inputs, 0), typed(kinds, 0))]


QUANTIZE_KERNELS: dict[str, Kernel] = {
    "QuantizeLinear": _quantize_linear,
    "DequantizeLinear": _dequantize_linear,
}
