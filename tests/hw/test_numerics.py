"""Fixed-point arithmetic against exact rationals."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.hw import numerics
from tilewright.hw.errors import CompileError
from tilewright.hw.isa import Rounding

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)


def exactly_rounded(value: Fraction, rounding: Rounding) -> int:
    if rounding is Rounding.FLOOR:
        return math.floor(value)
    if rounding is Rounding.HALF_EVEN:
        return round(value)
    return math.floor(abs(value) + Fraction(1, 2)) * (1 if value >= 0 else -1)


@given(st.integers(-(1 << 61), 1 << 61), st.integers(0, 63), st.sampled_from(Rounding))
def test_round_shift_is_exact_division(x: int, shift: int, rounding: Rounding) -> None:
    expected = exactly_rounded(Fraction(x, 1 << shift), rounding)
    assert int(numerics.round_shift(x, shift, rounding)) == expected


@given(st.integers(-(1 << 20), 1 << 20), st.integers(1, 40), st.sampled_from(Rounding))
def test_round_shift_decides_ties(whole: int, shift: int, rounding: Rounding) -> None:
    tie = (2 * whole + 1) << (shift - 1)
    expected = exactly_rounded(Fraction(2 * whole + 1, 2), rounding)
    assert int(numerics.round_shift(tie, shift, rounding)) == expected


@given(INT32, INT32, st.sampled_from(Rounding))
def test_shift_right_takes_any_amount(x: int, amount: int, rounding: Rounding) -> None:
    if amount >= 0:
        expected = exactly_rounded(Fraction(x, 1 << min(amount, 100)), rounding)
    else:
        expected = x << min(-amount, 100)
    wrapped = (expected + (1 << 31)) % (1 << 32) - (1 << 31)
    assert int(numerics.shift_right(x, amount, rounding)) == wrapped


@given(st.integers(-(1 << 62), 1 << 62), st.integers(1, 63))
def test_wrap_signed_keeps_the_low_bits(x: int, bits: int) -> None:
    expected = (x + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
    assert int(numerics.wrap_signed(x, bits)) == expected


def test_wrap_int32_at_its_ends() -> None:
    values = np.array([1 << 31, -(1 << 31) - 1, 1 << 32, -1])
    assert numerics.wrap_int32(values).tolist() == [-(1 << 31), (1 << 31) - 1, 0, -1]


@given(
    INT32,
    INT32,
    st.integers(0, (1 << 24) - 1),
    st.integers(0, 63),
    st.integers(-256, 255),
    st.sampled_from([Rounding.HALF_EVEN, Rounding.HALF_AWAY]),
)
def test_requantize_is_exact(
    accumulator: int, bias: int, multiplier: int, shift: int, zero_point: int, rounding: Rounding
) -> None:
    ratio = Fraction((accumulator + bias) * multiplier, 1 << shift)
    expected = min(max(exactly_rounded(ratio, rounding) + zero_point, -100), 200)
    result = numerics.requantize(
        accumulator,
        bias,
        multiplier,
        shift,
        zero_point=zero_point,
        low=-100,
        high=200,
        rounding=rounding,
    )
    assert int(result) == expected


@given(st.floats(2.0**-38, 2.0**23, width=32))
def test_float32_ratio_is_taken_exactly(ratio: float) -> None:
    multiplier, shift = numerics.multiplier_of_ratio(ratio)
    assert Fraction(multiplier, 1 << shift) == Fraction(ratio)
    assert 0 < multiplier < 1 << 24
    assert 0 <= shift <= 63


def test_ratio_of_more_bits_is_rounded_to_24() -> None:
    multiplier, shift = numerics.multiplier_of_ratio(1 / 49)
    assert multiplier == round(Fraction(1 / 49) * (1 << shift))
    assert multiplier.bit_length() == 24


def test_ratio_that_rounds_up_to_a_power_of_two() -> None:
    assert numerics.multiplier_of_ratio(float(np.nextafter(1.0, 0.0))) == (1 << 23, 23)


def test_tiny_ratio_is_shortened_not_refused() -> None:
    multiplier, shift = numerics.multiplier_of_ratio(2.0**-60 * 1.5)
    assert (multiplier, shift) == (12, 63)
    assert numerics.multiplier_of_ratio(2.0**-120) == (0, 63)


@pytest.mark.parametrize("ratio", [0.0, -1.0, float("inf"), float("nan"), 2.0**24])
def test_impossible_ratio_is_refused(ratio: float) -> None:
    with pytest.raises(CompileError, match=r"requantize: scale ratio .* is not in \(0, 2\^24\)"):
        numerics.multiplier_of_ratio(ratio)


def test_scale_ratio_rounds_every_step_to_float32() -> None:
    x, w, y = 0.1, 0.003, 0.7
    product = np.float32(np.float32(x) * np.float32(w))
    assert numerics.scale_ratio(x, w, y) == float(np.float32(product / np.float32(y)))


def test_multipliers_of_ratios_come_in_order() -> None:
    multipliers, shifts = numerics.multipliers_of_ratios([0.5, 0.75])
    assert (multipliers / 2.0**shifts).tolist() == [0.5, 0.75]


@pytest.mark.parametrize("seed", range(50))
def test_add_multipliers_are_the_largest_that_keep_the_sum_in_int32(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b, y = (float(np.float32(10 ** rng.uniform(-4, 1))) for _ in range(3))
    ma, mb, k = numerics.add_multipliers(a, b, y)
    exact = [Fraction(s) / Fraction(y) for s in (a, b)]
    assert [ma, mb] == [round(ratio * 2**k) for ratio in exact]
    assert 255 * (ma + mb) < 2**31
    assert max(ma, mb) < 2**22
    assert max(round(ratio * 2 ** (k + 1)) for ratio in exact) >= 2**22


def test_add_multipliers_of_equal_scales() -> None:
    assert numerics.add_multipliers(0.5, 0.5, 0.5) == (1 << 21, 1 << 21, 21)
    assert numerics.add_multipliers(0.25, 1.0, 0.5) == (1 << 19, 1 << 21, 20)


def test_an_add_multiplier_that_rounds_up_to_a_power_of_two_is_halved() -> None:
    just_below = float(np.nextafter(np.float32(1), np.float32(0)))
    assert numerics.add_multipliers(just_below, 0.5, 1.0) == (1 << 21, 1 << 20, 21)


@pytest.mark.parametrize("a", [0.0, float("inf"), float("nan"), 2.0**22, 2.0**22 - 0.25])
def test_impossible_add_scales_are_refused(a: float) -> None:
    with pytest.raises(CompileError, match=r"^add: scale ratio"):
        numerics.add_multipliers(a, 1.0, 1.0)
