"""What the exact reference's rules share: a layer as they see it, and arithmetic on fractions."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.ir.graph import Node
from tilewright.hw.errors import ModelError
from tilewright.runtime.attributes import get_int
from tilewright.runtime.tensor import Array, Quantization, TensorType

Numbers = NDArray[Any]
"""Integers in int64, or integers held exactly in float64."""

_MANTISSA_BITS = 24
_FAR_BELOW_HALF = 60
"""A 33-bit sum times a 24-bit numerator over 2^60 or more rounds to zero."""
_MAX_EXPONENT = 63


@dataclass(frozen=True, slots=True)
class Layer:
    """What a rule sees: a node, the types of its inputs and outputs, its inputs' arrays.

    `nudge`, in steps of the output, is added before rounding: zero for the exact result.
    """

    node: Node
    kinds: tuple[TensorType | None, ...]
    out: tuple[TensorType, ...]
    arrays: tuple[Array | None, ...]
    nudge: float = 0.0

    def array(self, index: int) -> Numbers:
        """Return an input that must be there."""
        array = self.arrays[index] if index < len(self.arrays) else None
        if array is None:
            raise ModelError(f"{self.node.name}: {self.node.op} lacks its input {index}")
        return array

    def quantization(self, kind: TensorType | None) -> Quantization:
        """Return a quantization that must be there."""
        if kind is None or kind.quantization is None:
            raise ModelError(f"{self.node.name}: {self.node.op} works on {kind}, without a scale")
        return kind.quantization


def spread(values: Sequence[float], axis: int | None, rank: int) -> Numbers:
    """Return values along an axis, to broadcast against a tensor of this rank."""
    array = np.asarray(values)
    return array.reshape(()) if axis is None else array.reshape(-1, *(1,) * (rank - axis - 1))


def saturate(stored: Numbers, layer: Layer) -> list[Array]:
    """Return the output, clamped to the attributes low and high."""
    dtype = np.dtype(layer.out[0].dtype)
    low = get_int(layer.node.attributes, "low", int(np.iinfo(dtype).min))
    high = get_int(layer.node.attributes, "high", int(np.iinfo(dtype).max))
    return [np.minimum(np.maximum(stored, low), high).astype(dtype)]


def without_zero_point(layer: Layer, index: int) -> Numbers:
    """Return an input less its zero points, in float64."""
    x, kind = layer.array(index).astype(np.float64), layer.kinds[index]
    q = kind.quantization if kind else None
    return x - spread(q.zero_point, q.axis, x.ndim) if q else x


def int32(x: Numbers) -> Numbers:
    """Return x wrapped to 32 bits."""
    return (x + 2**31) % 2**32 - 2**31


def times(x: Numbers, numerator: Numbers, log2_denominator: Numbers, nudge: float) -> Numbers:
    """Return x · numerator / 2^log2_denominator (plus `nudge`), rounded half to even."""
    vanishes = log2_denominator >= _FAR_BELOW_HALF
    denominator = np.int64(1) << np.where(vanishes, 0, log2_denominator)
    whole, rest = np.divmod(x * numerator, denominator)
    if nudge:
        up = np.rint(rest / denominator + nudge).astype(np.int64)
    else:
        up = (2 * rest > denominator) | ((2 * rest == denominator) & (whole % 2 == 1))
    return np.where(vanishes, 0, whole + up)


def _fraction(ratio: Fraction, layer: Layer) -> tuple[int, int]:
    """Return (numerator, log2 of the denominator) of a ratio cut to 24 significant bits."""
    if not 0 < ratio < 1 << _MANTISSA_BITS:
        raise ModelError(f"{layer.node.name}: scale ratio {float(ratio)} is not in (0, 2^24)")
    exponent = _MANTISSA_BITS - (ratio.numerator.bit_length() - ratio.denominator.bit_length())
    while ratio * Fraction(2) ** exponent >= 1 << _MANTISSA_BITS:
        exponent -= 1
    while ratio * Fraction(2) ** exponent < 1 << (_MANTISSA_BITS - 1):
        exponent += 1
    return round(ratio * Fraction(2) ** exponent), exponent


def float32_ratio(x: float, w: float, y: float) -> Fraction:
    """(x · w) / y with each operation rounded to float32, as ONNX evaluates it."""
    return Fraction(float(np.float32(x) * np.float32(w) / np.float32(y)))


def rescale(x: Numbers, ratios: Sequence[Fraction], axis: int | None, layer: Layer) -> Numbers:
    """Return x · ratio, rounded, each ratio first cut to 24 significant bits."""
    pairs = [_fraction(ratio, layer) for ratio in ratios]
    numerator = spread([n for n, _ in pairs], axis, x.ndim)
    return times(x, numerator, spread([k for _, k in pairs], axis, x.ndim), layer.nudge)


def common_fractions(ratios: Sequence[Fraction], bits: int, layer: Layer) -> tuple[list[int], int]:
    """Return integers n and the largest k to 63 with n = round(ratio · 2^k) < 2^bits for all."""
    for k in range(_MAX_EXPONENT, -1, -1):
        numerators = [round(ratio * 2**k) for ratio in ratios]
        if max(numerators) < 1 << bits:
            return numerators, k
    raise ModelError(f"{layer.node.name}: scale ratio {float(max(ratios))} is not below 2^{bits}")
