"""The exact reference's rules for quantized operators, from their definitions."""

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from tilewright.exact_arithmetic import (
    Layer,
    Numbers,
    common_fractions,
    float32_ratio,
    int32,
    rescale,
    saturate,
    spread,
    times,
    without_zero_point,
)
from tilewright.runtime.attributes import get_int, get_ints
from tilewright.runtime.tensor import Array

Rule = Callable[[Layer], list[Array]]

_ADD_BITS = 22


def _quantize(layer: Layer) -> list[Array]:
    x, q = layer.array(0), layer.quantization(layer.out[0])
    with np.errstate(over="ignore"):  # A quotient out of float32's range is ∞, and saturates.
        steps = x.astype(np.float32) / spread(q.scale, q.axis, x.ndim).astype(np.float32)
    steps = np.where(np.isnan(steps), -np.inf, steps)
    nearest = np.clip(np.rint(steps), -(2.0**40), 2.0**40).astype(np.int64)
    return saturate(nearest + spread(q.zero_point, q.axis, x.ndim), layer)


def _dequantize(layer: Layer) -> list[Array]:
    x, q = layer.array(0), layer.quantization(layer.kinds[0])
    steps = (x.astype(np.int64) - spread(q.zero_point, q.axis, x.ndim)).astype(np.float32)
    return [steps * spread(q.scale, q.axis, x.ndim).astype(np.float32)]


def _output(sums: Numbers, axis: int, layer: Layer) -> list[Array]:
    """Accumulators, channels along `axis`, plus bias, to the output's scale."""
    accumulators = int32(sums.astype(np.int64))
    bias = layer.arrays[2] if len(layer.arrays) > 2 else None
    if bias is not None:
        accumulators = accumulators + spread(bias.astype(np.int64).tolist(), axis, sums.ndim)
    if layer.out[0].dtype == "int32":
        return [int32(accumulators).astype(np.int32)]
    x, w, y = (layer.quantization(k) for k in (*layer.kinds[:2], layer.out[0]))
    ratios = [float32_ratio(x.scale[0], scale, y.scale[0]) for scale in w.scale]
    scaled = rescale(accumulators, ratios, None if w.axis is None else axis, layer)
    return saturate(scaled + y.zero_point[0], layer)


def _taps(layer: Layer, kernel: Sequence[int]) -> tuple[list[tuple[int, ...]], list[int]]:
    """Every kernel position, and the output's spatial sizes."""
    attributes, rank = layer.node.attributes, len(kernel)
    strides, pads = get_ints(attributes, "strides"), get_ints(attributes, "pads")
    dilations = get_ints(attributes, "dilations")
    sizes = [
        (
            layer.array(0).shape[2 + i]
            + pads[i]
            + pads[rank + i]
            - dilations[i] * (kernel[i] - 1)
            - 1
        )
        // strides[i]
        + 1
        for i in range(rank)
    ]
    return list(np.ndindex(*kernel)), sizes


def _at_tap(x: Numbers, tap: tuple[int, ...], sizes: Sequence[int], layer: Layer) -> Numbers:
    """The element of padded x under one kernel position, for every output position."""
    strides = get_ints(layer.node.attributes, "strides")
    dilations = get_ints(layer.node.attributes, "dilations")
    index = [slice(None), slice(None)]
    for position, size, stride, dilation in zip(tap, sizes, strides, dilations, strict=True):
        start = position * dilation
        index.append(slice(start, start + (size - 1) * stride + 1, stride))
    return x[tuple(index)]


def _padded(x: Numbers, layer: Layer, value: float) -> Numbers:
    pads = get_ints(layer.node.attributes, "pads")
    rank = len(pads) // 2
    shape = [*x.shape[:2]]
    shape += [x.shape[2 + i] + pads[i] + pads[rank + i] for i in range(rank)]
    result = np.full(shape, value, x.dtype)
    inner = tuple(slice(pads[i], pads[i] + x.shape[2 + i]) for i in range(rank))
    result[(slice(None), slice(None), *inner)] = x
    return result


def _conv(layer: Layer) -> list[Array]:
    w = without_zero_point(layer, 1)
    x = _padded(without_zero_point(layer, 0), layer, 0.0)
    group = get_int(layer.node.attributes, "group")
    outputs, depth, batch = w.shape[0] // group, w.shape[1], x.shape[0]
    taps, sizes = _taps(layer, w.shape[2:])
    sums = np.zeros((group, outputs, batch * int(np.prod(sizes))))
    for tap in taps:
        seen = np.moveaxis(_at_tap(x, tap, sizes, layer), 1, 0).reshape(group, depth, -1)
        index: tuple[int | slice, ...] = (slice(None), slice(None), *tap)
        weights = w[index].reshape(group, outputs, depth)
        sums += np.matmul(weights, seen)
    by_channel = sums.reshape(w.shape[0], batch, *sizes)
    return _output(np.moveaxis(by_channel, 0, 1), 1, layer)


def _matmul(layer: Layer) -> list[Array]:
    sums = np.matmul(without_zero_point(layer, 0), without_zero_point(layer, 1))
    return _output(sums, sums.ndim - 1, layer)


def _average_pool(layer: Layer) -> list[Array]:
    x, y = layer.quantization(layer.kinds[0]), layer.quantization(layer.out[0])
    data = _padded(without_zero_point(layer, 0), layer, 0.0)
    include = get_int(layer.node.attributes, "count_include_pad", 0)
    inside = _padded(np.ones((1, 1, *layer.array(0).shape[2:])), layer, float(include))
    taps, sizes = _taps(layer, get_ints(layer.node.attributes, "kernel_shape"))
    sums = np.zeros((*data.shape[:2], *sizes))
    counts = np.zeros((1, 1, *sizes))
    for tap in taps:
        sums += _at_tap(data, tap, sizes, layer)
        counts += _at_tap(inside, tap, sizes, layer)
    scaled = np.zeros(sums.shape, np.int64)
    for count in np.unique(counts):
        ratio = Fraction(x.scale[0]) / (Fraction(y.scale[0]) * int(count))
        part = rescale(sums.astype(np.int64), [ratio], None, layer)
        scaled = np.where(counts == count, part, scaled)
    return saturate(scaled + y.zero_point[0], layer)


def _max_pool(layer: Layer) -> list[Array]:
    x = layer.array(0)
    data = _padded(x, layer, np.iinfo(x.dtype).min)
    taps, sizes = _taps(layer, get_ints(layer.node.attributes, "kernel_shape"))
    best = _at_tap(data, taps[0], sizes, layer)
    for tap in taps[1:]:
        best = np.maximum(best, _at_tap(data, tap, sizes, layer))
    return saturate(best.astype(np.int64), layer)


def _requantize(layer: Layer) -> list[Array]:
    x = layer.array(0).astype(np.int64)
    if layer.kinds[0] is None or layer.kinds[0].quantization is None:
        return saturate(x, layer)
    before, after = layer.quantization(layer.kinds[0]), layer.quantization(layer.out[0])
    ratio = float32_ratio(before.scale[0], 1.0, after.scale[0])
    scaled = rescale(x - before.zero_point[0], [ratio], None, layer)
    return saturate(scaled + after.zero_point[0], layer)


def _steps(layer: Layer, index: int) -> tuple[Numbers, Fraction]:
    """Return an operand less its zero point, in int64, and its scale."""
    q = layer.quantization(layer.kinds[index])
    return layer.array(index).astype(np.int64) - q.zero_point[0], Fraction(q.scale[0])


def _signed_add(layer: Layer, sign: int) -> list[Array]:
    (a, a_scale), (b, b_scale) = _steps(layer, 0), _steps(layer, 1)
    y = layer.quantization(layer.out[0])
    ratios = [a_scale / Fraction(y.scale[0]), b_scale / Fraction(y.scale[0])]
    (ma, mb), k = common_fractions(ratios, _ADD_BITS, layer)
    total = a * ma + b * (sign * mb)
    nearest = times(total, np.asarray(1), np.asarray(k), layer.nudge)
    return saturate(nearest + y.zero_point[0], layer)


def _add(layer: Layer) -> list[Array]:
    return _signed_add(layer, 1)


def _sub(layer: Layer) -> list[Array]:
    return _signed_add(layer, -1)


def _mul(layer: Layer) -> list[Array]:
    (a, a_scale), (b, b_scale) = _steps(layer, 0), _steps(layer, 1)
    y = layer.quantization(layer.out[0])
    ratio = float32_ratio(float(a_scale), float(b_scale), y.scale[0])
    return saturate(rescale(a * b, [ratio], None, layer) + y.zero_point[0], layer)


def _concat(layer: Layer) -> list[Array]:
    y = layer.quantization(layer.out[0])
    parts = []
    for i in range(len(layer.arrays)):
        x, scale = _steps(layer, i)
        ratio = float32_ratio(float(scale), 1.0, y.scale[0])
        parts.append(rescale(x, [ratio], None, layer) + y.zero_point[0])
    return saturate(np.concatenate(parts, get_int(layer.node.attributes, "axis")), layer)


def _reduce_mean(layer: Layer) -> list[Array]:
    x, scale = _steps(layer, 0)
    y = layer.quantization(layer.out[0])
    axes = get_ints(layer.node.attributes, "axes", tuple(range(x.ndim)))
    count = int(np.prod([x.shape[axis] for axis in axes]))
    sums = x.sum(axes, keepdims=get_int(layer.node.attributes, "keepdims", 1) == 1)
    ratio = scale / (Fraction(y.scale[0]) * count)
    return saturate(rescale(sums, [ratio], None, layer) + y.zero_point[0], layer)


BORDER_RULES: dict[str, Rule] = {"DequantizeLinear": _dequantize, "QuantizeLinear": _quantize}

INTEGER_RULES: dict[str, Rule] = {
    "AveragePool": _average_pool,
    "Conv": _conv,
    "MatMul": _matmul,
    "MaxPool": _max_pool,
    "Requantize": _requantize,
}
"""Where the first input holds integers."""

STORED_RULES: dict[str, Rule] = {
    "Add": _add,
    "Concat": _concat,
    "Mul": _mul,
    "ReduceMean": _reduce_mean,
    "Sub": _sub,
}
"""Where every input and output is int8 or uint8 with one scale."""
