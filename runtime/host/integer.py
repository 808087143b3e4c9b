"""Quantized operators on the host, with the machine's arithmetic (`hw.numerics`).

Sums of products are taken in float64, exact because they stay below 2^53.
"""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from tilewright.hw.errors import ModelError
from tilewright.hw.numerics import (
    Int64,
    multiplier_of_ratio,
    multipliers_of_ratios,
    requantize,
    scale_ratio,
    wrap_int32,
)
from tilewright.runtime.attributes import Attributes, get_int, get_ints
from tilewright.runtime.host.kernel import (
    Inputs,
    InputTypes,
    Kernel,
    Numbers,
    OutputTypes,
    required,
    typed,
)
from tilewright.runtime.host.quantize import along_axis, dequantize, quantize
from tilewright.runtime.tensor import Array, Quantization, TensorType


def quantization_of(kind: TensorType, what: str) -> Quantization:
    """Return a quantization that must be there.

    Raises:
        ModelError: the tensor, named by `what`, has no scale.
    """
    if kind.quantization is None:
        raise ModelError(f"{what} {kind} has no scale; only quantized models run")
    return kind.quantization


def centred(x: Numbers, kind: TensorType) -> NDArray[np.float64]:
    """Return x minus its zero points, exact in float64."""
    q = kind.quantization
    if q is None:
        return x.astype(np.float64)
    return x.astype(np.float64) - along_axis(q.zero_point, q.axis, x.ndim, "float64")


def clamp_bounds(attributes: Attributes, dtype: str) -> tuple[int, int]:
    """Return low and high, by default the range of the element type."""
    info = np.iinfo(np.dtype(dtype))
    return get_int(attributes, "low", int(info.min)), get_int(attributes, "high", int(info.max))


def _finish(
    sums: NDArray[np.float64],
    bias: Array | None,
    kinds: tuple[TensorType, TensorType, TensorType],
    attributes: Attributes,
    channel_axis: int,
) -> Array:
    """Accumulators to the output of type kinds[2]; kinds[0], kinds[1] are x and w."""
    x, w, y = kinds
    rank = sums.ndim
    added = np.zeros(1, np.int64) if bias is None else bias.astype(np.int64)
    added = added.reshape((-1,) + (1,) * (rank - 1 - channel_axis))
    accumulator = wrap_int32(sums.astype(np.int64))
    if y.dtype == "int32":
        return wrap_int32(accumulator + added).astype(np.int32)
    x_q, w_q, y_q = (
        quantization_of(x, "input"),
        quantization_of(w, "weight"),
        quantization_of(y, "output"),
    )
    ratios = [scale_ratio(x_q.scale[0], s, y_q.scale[0]) for s in w_q.scale]
    multiplier, shift = multipliers_of_ratios(ratios)
    axis = None if w_q.axis is None else channel_axis
    low, high = clamp_bounds(attributes, y.dtype)
    return requantize(
        accumulator,
        added,
        along_axis(multiplier.tolist(), axis, rank, "int64"),
        along_axis(shift.tolist(), axis, rank, "int64"),
        zero_point=y_q.zero_point[0],
        low=low,
        high=high,
    ).astype(y.dtype)


def windows(x: Numbers, kernel: tuple[int, ...], attributes: Attributes, fill: float) -> Numbers:
    """Return the windows of x[N, C, *] as [N, C, *out, *kernel], padded with `fill`."""
    rank = len(kernel)
    pads, strides = get_ints(attributes, "pads"), get_ints(attributes, "strides")
    dilations = get_ints(attributes, "dilations")
    ends = list(zip(pads[:rank], pads[rank:], strict=True))
    padded = np.pad(x, [(0, 0), (0, 0), *ends], constant_values=fill)
    extents = tuple(d * (k - 1) + 1 for k, d in zip(kernel, dilations, strict=True))
    view = sliding_window_view(padded, extents, axis=tuple(range(2, 2 + rank)))
    positions = tuple(slice(None, None, s) for s in strides)
    taps = tuple(slice(None, None, d) for d in dilations)
    return view[(slice(None), slice(None), *positions, *taps)]


def convolve(x: NDArray[np.float64], w: NDArray[np.float64], attributes: Attributes) -> Numbers:
    """Return the convolution of x[N, C, *] by w[O, C/group, *], zero-padded."""
    group, rank = get_int(attributes, "group"), w.ndim - 2
    view = windows(x, w.shape[2:], attributes, 0.0)
    n, channels, *sizes = view.shape[: 2 + rank]
    order = (0, 1, *range(2 + rank, 2 + 2 * rank), *range(2, 2 + rank))
    depth, positions = channels // group * int(np.prod(w.shape[2:])), int(np.prod(sizes))
    columns = view.transpose(order).reshape(n, group, depth, positions)
    rows = w.reshape(group, w.shape[0] // group, depth)
    sums: NDArray[np.float64] = np.matmul(rows, columns)
    return sums.reshape(n, w.shape[0], *sizes)


def _conv(
    inputs: Inputs, attributes: Attributes, kinds: InputTypes, out: OutputTypes
) -> list[Array]:
    x, w = typed(kinds, 0), typed(kinds, 1)
    if x.dtype.startswith("float"):
        raise ModelError("Conv on floats: the model is not quantized")
    sums = convolve(
        centred(required(inputs, 0), x), centred(required(inputs, 1), w), attributes
    ).astype(np.float64)
    bias = inputs[2] if len(inputs) > 2 else None
    return [_finish(sums, bias, (x, w, out[0]), attributes, 1)]


def _matmul(
    inputs: Inputs, attributes: Attributes, kinds: InputTypes, out: OutputTypes
) -> list[Array]:
    x, w = typed(kinds, 0), typed(kinds, 1)
    if x.dtype.startswith("float"):
        return [np.matmul(required(inputs, 0), required(inputs, 1))]
    sums = np.matmul(centred(required(inputs, 0), x), centred(required(inputs, 1), w))
    bias = inputs[2] if len(inputs) > 2 else None
    return [_finish(sums, bias, (x, w, out[0]), attributes, sums.ndim - 1)]


def _average_pool(
    inputs: Inputs, attributes: Attributes, kinds: InputTypes, out: OutputTypes
) -> list[Array]:
    x, kind, y = required(inputs, 0), typed(kinds, 0), out[0]
    kernel = get_ints(attributes, "kernel_shape")
    axes = tuple(range(-len(kernel), 0))
    real = kind.dtype.startswith("float")
    sums = windows(x if real else centred(x, kind), kernel, attributes, 0.0).sum(axes)
    inside = np.full((1, 1, *x.shape[2:]), 1.0)
    fill = float(get_int(attributes, "count_include_pad", 0))
    counts = windows(inside, kernel, attributes, fill).sum(axes)
    if real:
        return [(sums / counts.astype(x.dtype)).astype(x.dtype)]
    x_q, y_q = quantization_of(kind, "input"), quantization_of(y, "output")
    multiplier: Int64 = np.zeros(counts.shape, np.int64)
    shift: Int64 = np.zeros(counts.shape, np.int64)
    for count in np.unique(counts):
        at = counts == count
        multiplier[at], shift[at] = multiplier_of_ratio(x_q.scale[0] / (y_q.scale[0] * count))
    low, high = clamp_bounds(attributes, y.dtype)
    stored = requantize(
        sums.astype(np.int64),
        0,
        multiplier,
        shift,
        zero_point=y_q.zero_point[0],
        low=low,
        high=high,
    )
    return [stored.astype(y.dtype)]


def _max_pool(
    inputs: Inputs, attributes: Attributes, _: InputTypes, __: OutputTypes
) -> list[Array]:
    x, kernel = required(inputs, 0), get_ints(attributes, "kernel_shape")
    fill = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    best = windows(x, kernel, attributes, fill).max(tuple(range(-len(kernel), 0)))
    if "low" in attributes or "high" in attributes:
        best = np.clip(best, *clamp_bounds(attributes, str(x.dtype)))
    return [best.astype(x.dtype)]


def _requantize(
    inputs: Inputs, attributes: Attributes, kinds: InputTypes, out: OutputTypes
) -> list[Array]:
    x, kind, y = required(inputs, 0), typed(kinds, 0), out[0]
    low, high = clamp_bounds(attributes, y.dtype)
    if kind.quantization is None or y.quantization is None:
        return [np.clip(x.astype(np.int64), low, high).astype(y.dtype)]
    if kind.quantization.axis is not None or y.quantization.axis is not None:
        return [np.clip(quantize(dequantize(x, kind), y), low, high).astype(y.dtype)]
    ratio = scale_ratio(kind.quantization.scale[0], 1.0, y.quantization.scale[0])
    multiplier, shift = multiplier_of_ratio(ratio)
    stored = requantize(
        x.astype(np.int64) - kind.quantization.zero_point[0],
        0,
        multiplier,
        shift,
        zero_point=y.quantization.zero_point[0],
        low=low,
        high=high,
    )
    return [stored.astype(y.dtype)]


INTEGER_KERNELS: dict[str, Kernel] = {
    "Conv": _conv,
    "MatMul": _matmul,
    "AveragePool": _average_pool,
    "MaxPool": _max_pool,
    "Requantize": _requantize,
}
