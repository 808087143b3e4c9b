"""Weights and biases of a real-valued operator as the integers that the machine works on."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.ir.graph import Graph, Node
from tilewright.compiler.passes.uses import Uses
from tilewright.hw.errors import ModelError
from tilewright.runtime.tensor import Array, Quantization, TensorType

_SCALE_TOLERANCE = 1e-5
"""Relative: exporters round the product of two float32 scales in different ways."""


@dataclass(frozen=True, slots=True)
class Weight:
    """int8 weights and their quantization along the output channels' axis."""

    array: Array
    quantization: Quantization


@dataclass(frozen=True, slots=True)
class Bias:
    """int32, one a channel, in units of the accumulators; `error` is its worst rounding, in steps.

    A step is one of the output's, or a unit where the output is real.
    """

    array: Array
    error: float


@dataclass(frozen=True, slots=True)
class BiasTerm:
    """A value that is added: `factor` times it; `trailing` axes follow its channel axis."""

    name: str
    factor: float = 1.0
    trailing: int = 0


def quantized_source(uses: Uses, name: str) -> str | None:
    """Return the stored tensor whose DequantizeLinear a real value is, or None."""
    node = uses.producer(name)
    return node.inputs[0] if node is not None and node.op == "DequantizeLinear" else None


def real_constant(graph: Graph, uses: Uses, name: str) -> NDArray[np.float64] | None:
    """Return a real value that is a constant, dequantized in float64, or None."""
    if name in graph.constants:
        return graph.constants[name].astype(np.float64)
    source = quantized_source(uses, name)
    if source is None or source not in graph.constants:
        return None
    q = _quantization(graph.type(source))
    array = graph.constants[source].astype(np.float64)
    shape = () if q.axis is None else (-1,) + (1,) * (array.ndim - 1 - q.axis)
    scale, zero_point = np.reshape(q.scale, shape), np.reshape(q.zero_point, shape)
    real: NDArray[np.float64] = (array - zero_point) * scale
    return real


def weight_of(
    graph: Graph, uses: Uses, node: Node, *, axis: int, transpose: bool, alpha: float
) -> Weight | None:
    """Return the constant weights of an operator, or None when they are not quantized constants.

    `axis` is the output channels' before `transpose` (of a matrix).  uint8 becomes int8.

    Raises:
        ModelError: quantized along another axis, or not 8 bits wide.
    """
    source = quantized_source(uses, node.inputs[1])
    if source is None or source not in graph.constants:
        return None
    q, array = _quantization(graph.type(source)), graph.constants[source]
    where = f"node {node.origin[0]!r}: {node.op}"
    if q.axis not in {None, axis}:
        raise ModelError(f"{where}: its weights are quantized along axis {q.axis}, not {axis}")
    if array.dtype not in {np.dtype(np.int8), np.dtype(np.uint8)}:
        raise ModelError(f"{where}: its weights are {array.dtype}; int8 and uint8 are supported")
    if array.dtype == np.uint8:
        array = (array.astype(np.int16) - 128).astype(np.int8)
        q = replace(q, zero_point=tuple(z - 128 for z in q.zero_point))
    if transpose:
        array = np.ascontiguousarray(array.T)
        q = replace(q, axis=None if q.axis is None else 1 - q.axis)
    if alpha == 0 or not np.isfinite(alpha):
        raise ModelError(f"{where}: alpha={alpha:g} is not supported; leave out the product")
    if alpha < 0:  # −(w − z) = ~w − ~z, which is int8 for every w
        array, q = np.invert(array), replace(q, zero_point=tuple(~z for z in q.zero_point))
    if alpha != 1.0:
        factor = np.float32(abs(alpha))
        q = replace(q, scale=tuple(float(np.float32(s) * factor) for s in q.scale))
    return Weight(array, q)


def accumulator_scales(x: TensorType, weight: Quantization) -> tuple[float, ...]:
    """Return x_scale · w_scale in float32, one or one a channel."""
    x_scale = np.float32(_quantization(x).scale[0])
    return tuple(float(x_scale * np.float32(s)) for s in weight.scale)


def bias_of(
    graph: Graph,
    uses: Uses,
    node: Node,
    terms: list[BiasTerm],
    *,
    scales: tuple[float, ...],
    channels: int,
    step: float | None,
) -> Bias | None:
    """Return int32[channels], the sum of real constants in units of `scales`.

    One int32 constant already in those units is taken as it is.  None without terms.  `step` is
    the output's scale, None for a real output.

    Raises:
        ModelError: not a constant, not one value a channel, or too large for int32.
    """
    if not terms:
        return None
    where = f"node {node.origin[0]!r}: {node.op}"
    every = np.broadcast_to(scales, (channels,))
    first = quantized_source(uses, terms[0].name)
    if len(terms) == 1 and terms[0].factor == 1 and first and _is_in_units(graph, first, every):
        return Bias(_per_channel(graph.constants[first], terms[0], channels, where), 0.0)
    total = np.zeros(channels)
    for term in terms:
        real = real_constant(graph, uses, term.name)
        if real is None:
            raise ModelError(f"{where}: its bias {term.name!r} is not a constant")
        total += term.factor * _per_channel(real, term, channels, where).astype(np.float64)
    exact = total / every
    stored = np.rint(exact)
    limits = np.iinfo(np.int32)
    worst = float(stored[np.abs(stored).argmax()])
    if not limits.min <= worst <= limits.max:
        raise ModelError(f"{where}: its bias is {worst:.6g} in units of its scales, beyond int32")
    ratios = np.ones(channels) if step is None else every / step
    return Bias(stored.astype(np.int32), float(np.max(np.abs(exact - stored) * ratios, initial=0)))


def real_bias(graph: Graph, uses: Uses, node: Node, term: BiasTerm, *, channels: int) -> Array:
    """Return a bias that `bias_of` took as float32, shaped to be added to the node's output."""
    real = real_constant(graph, uses, term.name)
    where = f"node {node.origin[0]!r}: {node.op}"
    if real is None:
        raise ModelError(f"{where}: its bias {term.name!r} is not a constant")
    values = term.factor * _per_channel(real, term, channels, where).astype(np.float64)
    trailing = len(graph.type(node.outputs[0]).shape) - 2 if node.op == "Conv" else 0
    return values.astype(np.float32).reshape(-1, *(1,) * trailing)


def is_per_channel(shape: tuple[int, ...], trailing: int, channels: int) -> bool:
    """Whether a constant of this shape adds one value a channel, or one for all."""
    full = (1,) * (trailing + 1 - len(shape)) + shape
    axis = len(full) - 1 - trailing
    return full[axis] in {1, channels} and all(d == 1 for i, d in enumerate(full) if i != axis)


def _is_in_units(graph: Graph, source: str, scales: Array) -> bool:
    kind = graph.type(source)
    if source not in graph.constants or kind.dtype != "int32":
        return False
    q = _quantization(kind)
    if len(q.scale) not in {1, scales.size} or any(q.zero_point):
        return False
    own = np.broadcast_to(q.scale, scales.shape)
    return bool(np.all(np.abs(own - scales) <= _SCALE_TOLERANCE * np.abs(scales)))


def _per_channel(array: Array, term: BiasTerm, channels: int, where: str) -> Array:
    if not is_per_channel(array.shape, term.trailing, channels):
        raise ModelError(f"{where}: its bias {list(array.shape)} is not one value a channel")
    return np.broadcast_to(array.reshape(-1), (channels,)).copy()


def _quantization(kind: TensorType) -> Quantization:
    return kind.quantization or Quantization((1.0,), (0,))
