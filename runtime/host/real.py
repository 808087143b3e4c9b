"""Operators on real values that look at more than one element: concat, softmax, reductions."""

from collections.abc import Callable

import numpy as np

from tilewright.runtime.attributes import Attributes, get_float, get_int, get_ints, get_str
from tilewright.runtime.host.kernel import ArrayKernel, Inputs, Numbers, required
from tilewright.runtime.tensor import Array


def _concat(inputs: Inputs, attributes: Attributes) -> list[Array]:
    parts = [required(inputs, i) for i in range(len(inputs))]
    return [np.concatenate(parts, get_int(attributes, "axis"))]


def _softmax(inputs: Inputs, attributes: Attributes) -> list[Array]:
    x, axis = required(inputs, 0), get_int(attributes, "axis", -1)
    powers = np.exp(x - x.max(axis, keepdims=True))
    return [powers / powers.sum(axis, keepdims=True)]


def _log_softmax(inputs: Inputs, attributes: Attributes) -> list[Array]:
    x, axis = required(inputs, 0), get_int(attributes, "axis", -1)
    shifted = x - x.max(axis, keepdims=True)
    return [shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))]


def _where(inputs: Inputs, _: Attributes) -> list[Array]:
    return [np.where(required(inputs, 0), required(inputs, 1), required(inputs, 2))]


def _cast(inputs: Inputs, attributes: Attributes) -> list[Array]:
    return [required(inputs, 0).astype(get_str(attributes, "dtype"))]


def _layer_normalization(inputs: Inputs, attributes: Attributes) -> list[Array]:
    x, axis = required(inputs, 0), get_int(attributes, "axis", -1)
    axes = tuple(range(axis % x.ndim, x.ndim))
    centred = x - x.mean(axes, keepdims=True)
    variance = np.square(centred).mean(axes, keepdims=True)
    epsilon = np.float32(get_float(attributes, "epsilon", 1e-5))
    y = centred / np.sqrt(variance + epsilon) * required(inputs, 1)
    bias = inputs[2] if len(inputs) > 2 else None
    return [y if bias is None else y + bias]


def _batch_normalization(inputs: Inputs, attributes: Attributes) -> list[Array]:
    x = required(inputs, 0)
    shape = (-1,) + (1,) * (x.ndim - 2)
    gamma, beta, mean, variance = (required(inputs, i).reshape(shape) for i in range(1, 5))
    epsilon = np.float32(get_float(attributes, "epsilon", 1e-5))
    return [(x - mean) / np.sqrt(variance + epsilon) * gamma + beta]


def _reduction(function: Callable[[Numbers, tuple[int, ...], bool], Numbers]) -> ArrayKernel:
    def run(inputs: Inputs, attributes: Attributes) -> list[Array]:
        x = required(inputs, 0)
        axes = get_ints(attributes, "axes", tuple(range(x.ndim)))
        keep = bool(get_int(attributes, "keepdims", 1))
        return [np.asarray(function(x, axes, keep), x.dtype)]

    return run


REAL_KERNELS: dict[str, ArrayKernel] = {
    "Concat": _concat,
    "Softmax": _softmax,
    "LogSoftmax": _log_softmax,
    "Where": _where,
    "Cast": _cast,
    "LayerNormalization": _layer_normalization,
    "BatchNormalization": _batch_normalization,
    "ReduceMax": _reduction(lambda x, axes, keep: x.max(axes, keepdims=keep)),
    "ReduceMean": _reduction(lambda x, axes, keep: x.mean(axes, keepdims=keep)),
    "ReduceMin": _reduction(lambda x, axes, keep: x.min(axes, keepdims=keep)),
    "ReduceProd": _reduction(lambda x, axes, keep: x.prod(axes, keepdims=keep)),
    "ReduceSum": _reduction(lambda x, axes, keep: x.sum(axes, keepdims=keep)),
    "ReduceL2": _reduction(lambda x, axes, keep: np.sqrt((x * x).sum(axes, keepdims=keep))),
}
