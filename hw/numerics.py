"""Fixed-point arithmetic of the machine, defined once: rounding, saturation, requantization.

All functions take and return int64 arrays (or ints) and are exact.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.hw.errors import CompileError
from tilewright.hw.isa import Rounding

Int64 = NDArray[np.int64]

MULTIPLIER_BITS = 24
MAX_SHIFT = 63
ADD_MULTIPLIER_BITS = 22


def wrap_int32(x: ArrayLike) -> Int64:
    """Keep the low 32 bits, as a signed value."""
    wrapped: Int64 = np.asarray(x, np.int64).astype(np.int32).astype(np.int64)
    return wrapped


def wrap_signed(x: ArrayLike, bits: int) -> Int64:
    """Keep the low `bits` bits, as a signed value."""
    shift = np.int64(64 - bits)
    wrapped: Int64 = (np.asarray(x, np.int64) << shift) >> shift
    return wrapped


def round_shift(x: ArrayLike, shift: ArrayLike, rounding: Rounding) -> Int64:
    """Return x / 2^shift rounded to an integer; shift in [0, 63], x of at most 62 bits."""
    x, shift = np.asarray(x, np.int64), np.asarray(shift, np.int64)
    floor: Int64 = x >> shift
    if rounding is Rounding.FLOOR:
        return floor
    half = np.where(shift > 0, np.int64(1) << np.maximum(shift - 1, 0), 1)
    rest = x - (floor << shift)
    tie_up = (floor & 1) == 1 if rounding is Rounding.HALF_EVEN else x >= 0
    up = (rest > half) | ((rest == half) & tie_up)
    rounded: Int64 = floor + (up & (shift > 0))
    return rounded


def shift_right(x: ArrayLike, amount: ArrayLike, rounding: Rounding) -> Int64:
    """ALU SHR: int32 x shifted right by a signed amount (left when negative), low 32 bits."""
    x, amount = np.asarray(x, np.int64), np.asarray(amount, np.int64)
    right = round_shift(x, np.clip(amount, 0, 34), rounding)
    left = x << np.clip(-amount, 0, 32)
    return wrap_int32(np.where(amount >= 0, right, left))


def requantize(
    accumulator: ArrayLike,
    bias: ArrayLike,
    multiplier: ArrayLike,
    shift: ArrayLike,
    *,
    zero_point: int,
    low: int,
    high: int,
    rounding: Rounding = Rounding.HALF_EVEN,
) -> Int64:
    """The output stage: clamp(zero_point + round((acc + bias) · multiplier / 2^shift), low, high).

    acc and bias are int32 (their sum 33 bits), multiplier unsigned 24 bits, shift 0 to 63.
    """
    total = np.asarray(accumulator, np.int64) + np.asarray(bias, np.int64)
    product = total * np.asarray(multiplier, np.int64)
    return np.clip(zero_point + round_shift(product, shift, rounding), low, high)


def multiplier_of_ratio(ratio: float) -> tuple[int, int]:
    """Return (multiplier, shift): multiplier / 2^shift is the ratio rounded (even) to 24 bits.

    A float32 ratio is taken exactly unless it is below 2^-40, where a 33-bit sum can only
    round to zero and the mantissa is shortened.

    Raises:
        CompileError: a ratio that is not finite, not positive, or at least 2^24.
    """
    if not (np.isfinite(ratio) and 0 < ratio < 1 << MULTIPLIER_BITS):
        raise CompileError(
            f"requantize: scale ratio {ratio} is not in (0, 2^{MULTIPLIER_BITS}); check the scales"
        )
    mantissa, exponent = np.frexp(np.float64(ratio))
    multiplier, shift = (
        int(np.rint(np.ldexp(mantissa, MULTIPLIER_BITS))),
        MULTIPLIER_BITS - int(exponent),
    )
    if multiplier == 1 << MULTIPLIER_BITS:
        multiplier, shift = multiplier >> 1, shift - 1
    if shift > MAX_SHIFT:
        excess = min(shift - MAX_SHIFT, MULTIPLIER_BITS + 1)
        multiplier, shift = int(round_shift(multiplier, excess, Rounding.HALF_EVEN)), MAX_SHIFT
    return multiplier, shift


def scale_ratio(x_scale: float, w_scale: float, y_scale: float) -> float:
    """(x_scale · w_scale) / y_scale, each operation rounded to float32."""
    return float(np.float32(np.float32(x_scale) * np.float32(w_scale)) / np.float32(y_scale))


def multipliers_of_ratios(ratios: Sequence[float]) -> tuple[Int64, Int64]:
    """Return int64 arrays (multiplier, shift), one a ratio; errors as `multiplier_of_ratio`."""
    pairs = [multiplier_of_ratio(ratio) for ratio in ratios]
    return np.array([m for m, _ in pairs], np.int64), np.array([s for _, s in pairs], np.int64)


def add_multipliers(a_scale: float, b_scale: float, y_scale: float) -> tuple[int, int, int]:
    """Return (ma, mb, k) of a quantized Add: round((a · ma + b · mb) / 2^k) steps of y_scale.

    ma and mb are a_scale/y_scale · 2^k and b_scale/y_scale · 2^k rounded half to even, k the
    largest of 0 to 63 at which both are below 2^22: two 8-bit operands less their zero points
    then sum to less than 2^31.

    Raises:
        CompileError: a scale ratio that is not finite, not positive, or at least 2^22.
    """
    ratios = float(a_scale) / float(y_scale), float(b_scale) / float(y_scale)
    largest = max(ratios)
    if not (np.isfinite(largest) and min(ratios) > 0 and largest < 1 << ADD_MULTIPLIER_BITS):
        raise CompileError(
            f"add: scale ratios {ratios} are not in (0, 2^{ADD_MULTIPLIER_BITS}); check the scales"
        )
    shift = min(ADD_MULTIPLIER_BITS - int(np.frexp(largest)[1]), MAX_SHIFT)
    if np.rint(np.ldexp(largest, shift)) == 1 << ADD_MULTIPLIER_BITS:
        shift -= 1
    if shift < 0:
        raise CompileError(f"add: scale ratio {largest} rounds to 2^{ADD_MULTIPLIER_BITS}")
    first, second = (int(np.rint(np.ldexp(ratio, shift))) for ratio in ratios)
    return first, second, shift
