"""The exact reference: integer layers of a graph in exact arithmetic, written on its own.

It shares the imported graph with the compiler and nothing else: neither the machine's
arithmetic nor a host kernel.  Integers are exact (float64 sums stay below 2^53), scale ratios
are fractions, rounding is half to even.  Every kernel accepts any batch.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.ir.graph import Graph, Node
from tilewright.hw.errors import ModelError
from tilewright.runtime.attributes import get_int, get_ints, get_str
from tilewright.runtime.tensor import Array, Quantization, TensorType

Tensors = Mapping[str, Array]
Numbers = NDArray[Any]
"""Integers in int64, or integers held exactly in float64."""

_MANTISSA_BITS = 24
_FAR_BELOW_HALF = 60
"""A 33-bit sum times a 24-bit numerator over 2^60 or more rounds to zero."""


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


def execute(graph: Graph, feeds: Tensors, assumed: Tensors | None = None) -> dict[str, Array]:
    """Return every tensor that can be computed exactly from `feeds`, inputs included.

    A node without an exact rule (real-valued operators on the host) takes its outputs from
    `assumed`; what depends on one that is not there is left out.

    Raises:
        ModelError: an input is missing from `feeds`.
    """
    tensors: dict[str, Array] = {**graph.constants}
    for name in graph.input_names:
        if name not in feeds:
            raise ModelError(f"exact: input {name!r} is missing; give every graph input")
        tensors[name] = np.asarray(feeds[name])
    for node in graph.nodes:
        results = execute_node(graph, node, tensors)
        if results is None and assumed:
            results = {name: assumed[name] for name in node.outputs if name in assumed}
        tensors.update(results or {})
    return {name: array for name, array in tensors.items() if name not in graph.constants}


def execute_node(
    graph: Graph, node: Node, tensors: Tensors, *, nudge: float = 0.0
) -> dict[str, Array] | None:
    """Return a node's outputs by name, or None without a rule or with an input missing.

    With a `nudge` below one step, results near a rounding tie move to the other side of it.
    """
    kinds = tuple(graph.type(name) if name else None for name in node.inputs)
    rule = _RULES.get(node.op)
    if rule is None or any(name and name not in tensors for name in node.inputs):
        return None
    if node.op in _ON_INTEGERS and (kinds[0] is None or kinds[0].dtype.startswith("float")):
        return None
    arrays = tuple(tensors[name] if name else None for name in node.inputs)
    layer = Layer(node, kinds, tuple(graph.type(name) for name in node.outputs), arrays, nudge)
    return dict(zip(node.outputs, rule(layer), strict=True))


def _spread(values: Sequence[float], axis: int | None, rank: int) -> Numbers:
    array = np.asarray(values)
    return array.reshape(()) if axis is None else array.reshape(-1, *(1,) * (rank - axis - 1))


def _saturate(stored: Numbers, layer: Layer) -> list[Array]:
    dtype = np.dtype(layer.out[0].dtype)
    low = get_int(layer.node.attributes, "low", int(np.iinfo(dtype).min))
    high = get_int(layer.node.attributes, "high", int(np.iinfo(dtype).max))
    return [np.minimum(np.maximum(stored, low), high).astype(dtype)]


def _quantize(layer: Layer) -> list[Array]:
    x, q = layer.array(0), layer.quantization(layer.out[0])
    steps = x.astype(np.float32) / _spread(q.scale, q.axis, x.ndim).astype(np.float32)
    nearest = np.clip(np.rint(steps), -(2.0**40), 2.0**40).astype(np.int64)
    return _saturate(nearest + _spread(q.zero_point, q.axis, x.ndim), layer)


def _dequantize(layer: Layer) -> list[Array]:
    x, q = layer.array(0), layer.quantization(layer.kinds[0])
    steps = (x.astype(np.int64) - _spread(q.zero_point, q.axis, x.ndim)).astype(np.float32)
    return [steps * _spread(q.scale, q.axis, x.ndim).astype(np.float32)]


def _without_zero_point(layer: Layer, index: int) -> Numbers:
    x, kind = layer.array(index).astype(np.float64), layer.kinds[index]
    q = kind.quantization if kind else None
    return x - _spread(q.zero_point, q.axis, x.ndim) if q else x


def _int32(x: Numbers) -> Numbers:
    return (x + 2**31) % 2**32 - 2**31


def _times(x: Numbers, numerator: Numbers, log2_denominator: Numbers, nudge: float) -> Numbers:
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


def _float32_ratio(x: float, w: float, y: float) -> Fraction:
    """(x · w) / y with each operation rounded to float32, as ONNX evaluates it."""
    return Fraction(float(np.float32(x) * np.float32(w) / np.float32(y)))


def _scaled(x: Numbers, ratios: Sequence[Fraction], axis: int | None, layer: Layer) -> Numbers:
    pairs = [_fraction(ratio, layer) for ratio in ratios]
    numerator = _spread([n for n, _ in pairs], axis, x.ndim)
    return _times(x, numerator, _spread([k for _, k in pairs], axis, x.ndim), layer.nudge)


def _output(sums: Numbers, axis: int, layer: Layer) -> list[Array]:
    """Accumulators, channels along `axis`, plus bias, to the output's scale."""
    accumulators = _int32(sums.astype(np.int64))
    bias = layer.arrays[2] if len(layer.arrays) > 2 else None
    if bias is not None:
        accumulators = accumulators + _spread(bias.astype(np.int64).tolist(), axis, sums.ndim)
    if layer.out[0].dtype == "int32":
        return [_int32(accumulators).astype(np.int32)]
    x, w, y = (layer.quantization(k) for k in (*layer.kinds[:2], layer.out[0]))
    ratios = [_float32_ratio(x.scale[0], scale, y.scale[0]) for scale in w.scale]
    scaled = _scaled(accumulators, ratios, None if w.axis is None else axis, layer)
    return _saturate(scaled + y.zero_point[0], layer)


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
    w = _without_zero_point(layer, 1)
    x = _padded(_without_zero_point(layer, 0), layer, 0.0)
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
    sums = np.matmul(_without_zero_point(layer, 0), _without_zero_point(layer, 1))
    return _output(sums, sums.ndim - 1, layer)


def _average_pool(layer: Layer) -> list[Array]:
    x, y = layer.quantization(layer.kinds[0]), layer.quantization(layer.out[0])
    data = _padded(_without_zero_point(layer, 0), layer, 0.0)
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
        part = _scaled(sums.astype(np.int64), [ratio], None, layer)
        scaled = np.where(counts == count, part, scaled)
    return _saturate(scaled + y.zero_point[0], layer)


def _max_pool(layer: Layer) -> list[Array]:
    x = layer.array(0)
    data = _padded(x, layer, np.iinfo(x.dtype).min)
    taps, sizes = _taps(layer, get_ints(layer.node.attributes, "kernel_shape"))
    best = _at_tap(data, taps[0], sizes, layer)
    for tap in taps[1:]:
        best = np.maximum(best, _at_tap(data, tap, sizes, layer))
    return _saturate(best.astype(np.int64), layer)


def _requantize(layer: Layer) -> list[Array]:
    x = layer.array(0).astype(np.int64)
    if layer.kinds[0] is None or layer.kinds[0].quantization is None:
        return _saturate(x, layer)
    before, after = layer.quantization(layer.kinds[0]), layer.quantization(layer.out[0])
    ratio = _float32_ratio(before.scale[0], 1.0, after.scale[0])
    scaled = _scaled(x - before.zero_point[0], [ratio], None, layer)
    return _saturate(scaled + after.zero_point[0], layer)


def _same(layer: Layer) -> list[Array]:
    return [layer.array(0)]


def _flatten(layer: Layer) -> list[Array]:
    x, axis = layer.array(0), get_int(layer.node.attributes, "axis", 1)
    return [x.reshape(int(np.prod(x.shape[:axis])), -1)]


def _reshape(layer: Layer) -> list[Array]:
    x, target = layer.array(0), get_ints(layer.node.attributes, "shape")
    if get_int(layer.node.attributes, "allowzero", 0):
        return [x.reshape(target)]
    return [x.reshape([x.shape[i] if d == 0 else d for i, d in enumerate(target)])]


def _transpose(layer: Layer) -> list[Array]:
    x = layer.array(0)
    return [x.transpose(get_ints(layer.node.attributes, "perm", tuple(range(x.ndim))[::-1]))]


def _pad(layer: Layer) -> list[Array]:
    x, pads = layer.array(0), get_ints(layer.node.attributes, "pads")
    if get_str(layer.node.attributes, "mode", "constant") != "constant" or min(pads) < 0:
        raise ModelError(f"{layer.node.name}: only constant padding is exact")
    ends = list(zip(pads[: x.ndim], pads[x.ndim :], strict=True))
    value = np.asarray(layer.node.attributes.get("value", 0), x.dtype)
    return [np.pad(x, ends, constant_values=value.item())]


_ON_INTEGERS = {"Conv", "MatMul", "AveragePool", "MaxPool", "Requantize"}
_RULES: dict[str, Callable[[Layer], list[Array]]] = {
    "AveragePool": _average_pool,
    "Conv": _conv,
    "DequantizeLinear": _dequantize,
    "Flatten": _flatten,
    "Identity": _same,
    "MatMul": _matmul,
    "MaxPool": _max_pool,
    "Pad": _pad,
    "QuantizeLinear": _quantize,
    "Reinterpret": _same,
    "Requantize": _requantize,
    "Reshape": _reshape,
    "Transpose": _transpose,
}
