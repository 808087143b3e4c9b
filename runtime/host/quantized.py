"""Element-wise operators on quantized tensors, with the machine's arithmetic (`hw.numerics`).

Each has an integer form when every operand is int8 or uint8 with one scale; any other operands
are computed on their real values.
"""

import numpy as np

from tilewright.hw.numerics import (
    Int64,
    add_multipliers,
    multiplier_of_ratio,
    requantize,
    scale_ratio,
)
from tilewright.runtime.attributes import Attributes, get_int, get_ints
from tilewright.runtime.host.elementwise import ELEMENTWISE_KERNELS
from tilewright.runtime.host.integer import clamp_bounds, quantization_of
from tilewright.runtime.host.kernel import (
    Inputs,
    InputTypes,
    Kernel,
    OutputTypes,
    required,
    typed,
)
from tilewright.runtime.host.quantize import on_real_values
from tilewright.runtime.host.real import REAL_KERNELS
from tilewright.runtime.tensor import Array, TensorType


def is_stored(kind: TensorType | None) -> bool:
    """Whether a tensor is int8 or uint8 with one scale."""
    return (
        kind is not None
        and kind.dtype in {"int8", "uint8"}
        and kind.quantization is not None
        and kind.quantization.axis is None
    )


def _steps(inputs: Inputs, kinds: InputTypes, index: int) -> tuple[Int64, float]:
    """Return an operand less its zero point, and its scale."""
    q = quantization_of(typed(kinds, index), f"input {index}")
    return required(inputs, index).astype(np.int64) - q.zero_point[0], q.scale[0]


def _scaled(
    steps: Int64, multiplier: int, shift: int, attributes: Attributes, y: TensorType
) -> list[Array]:
    low, high = clamp_bounds(attributes, y.dtype)
    zero_point = quantization_of(y, "output").zero_point[0]
    stored = requantize(steps, 0, multiplier, shift, zero_point=zero_point, low=low, high=high)
    return [stored.astype(y.dtype)]


def _signed_add(sign: int) -> Kernel:
    def run(
        inputs: Inputs, attributes: Attributes, kinds: InputTypes, out: OutputTypes
    ) -> list[Array]:
        (a, a_scale), (b, b_scale) = _steps(inputs, kinds, 0), _steps(inputs, kinds, 1)
        y_scale = quantization_of(out[0], "output").scale[0]
        ma, mb, shift = add_multipliers(a_scale, b_scale, y_scale)
        return _scaled(a * ma + sign * b * mb, 1, shift, attributes, out[0])

    return run


def _mul(
    inputs: Inputs, attributes: Attributes, kinds: InputTypes, out: OutputTypes
) -> list[Array]:
    (a, a_scale), (b, b_scale) = _steps(inputs, kinds, 0), _steps(inputs, kinds, 1)
    ratio = scale_ratio(a_scale, b_scale, quantization_of(out[0], "output").scale[0])
    return _scaled(a * b, *multiplier_of_ratio(ratio), attributes, out[0])


def _concat(
    inputs: Inputs, attributes: Attributes, kinds: InputTypes, out: OutputTypes
) -> list[Array]:
    y_scale = quantization_of(out[0], "output").scale[0]
    parts: list[Array] = []
    for i in range(len(inputs)):
        steps, scale = _steps(inputs, kinds, i)
        multiplier, shift = multiplier_of_ratio(scale_ratio(scale, 1.0, y_scale))
        parts += _scaled(steps, multiplier, shift, attributes, out[0])
    return [np.concatenate(parts, get_int(attributes, "axis"))]


def _reduce_mean(
    inputs: Inputs, attributes: Attributes, kinds: InputTypes, out: OutputTypes
) -> list[Array]:
    steps, scale = _steps(inputs, kinds, 0)
    axes = get_ints(attributes, "axes", tuple(range(steps.ndim)))
    sums = steps.sum(axes, keepdims=bool(get_int(attributes, "keepdims", 1)))
    count = steps.size // max(sums.size, 1)
    ratio = scale / (quantization_of(out[0], "output").scale[0] * count)
    return _scaled(sums, *multiplier_of_ratio(ratio), attributes, out[0])


def _where_stored(kernel: Kernel, otherwise: Kernel) -> Kernel:
    def run(
        inputs: Inputs, attributes: Attributes, kinds: InputTypes, out: OutputTypes
    ) -> list[Array]:
        stored = all(map(is_stored, [*kinds, *out]))
        return (kernel if stored else otherwise)(inputs, attributes, kinds, out)

    return run


QUANTIZED_KERNELS: dict[str, Kernel] = {
    name: _where_stored(kernel, on_real_values({**ELEMENTWISE_KERNELS, **REAL_KERNELS}[name]))
    for name, kernel in {
        "Add": _signed_add(1),
        "Sub": _signed_add(-1),
        "Mul": _mul,
        "Concat": _concat,
        "ReduceMean": _reduce_mean,
    }.items()
}
