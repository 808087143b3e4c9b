"""Operators that move values without changing them."""

import numpy as np

from tilewright.hw.errors import ModelError
from tilewright.runtime.attributes import Attributes, get_int, get_ints, get_str
from tilewright.runtime.host.kernel import (
    ArrayKernel,
    Inputs,
    InputTypes,
    Kernel,
    OutputTypes,
    required,
)
from tilewright.runtime.tensor import Array


def _untyped(kernel: ArrayKernel) -> Kernel:
    def run(inputs: Inputs, attributes: Attributes, _: InputTypes, __: OutputTypes) -> list[Array]:
        return kernel(inputs, attributes)

    return run


def slice_of(start: int, end: int, step: int) -> slice:
    """Return Python's slice for ONNX's: an end far below zero means through index 0."""
    through_zero = step < 0 and end < -(1 << 30)
    return slice(start, None if through_zero else end, step)


def _identity(inputs: Inputs, _: Attributes) -> list[Array]:
    return [required(inputs, 0)]


def _flatten(inputs: Inputs, attributes: Attributes) -> list[Array]:
    x, axis = required(inputs, 0), get_int(attributes, "axis", 1)
    at = axis + x.ndim if axis < 0 else axis
    return [x.reshape(int(np.prod(x.shape[:at])), int(np.prod(x.shape[at:])))]


def _reshape(inputs: Inputs, attributes: Attributes) -> list[Array]:
    x, target = required(inputs, 0), get_ints(attributes, "shape")
    if not get_int(attributes, "allowzero", 0):
        target = tuple(x.shape[i] if size == 0 else size for i, size in enumerate(target))
    return [x.reshape(target)]


def _transpose(inputs: Inputs, attributes: Attributes) -> list[Array]:
    x = required(inputs, 0)
    order = get_ints(attributes, "perm", tuple(range(x.ndim))[::-1])
    return [np.ascontiguousarray(x.transpose(order))]


def _squeeze(inputs: Inputs, attributes: Attributes) -> list[Array]:
    x = required(inputs, 0)
    ones = tuple(i for i, size in enumerate(x.shape) if size == 1)
    return [np.squeeze(x, get_ints(attributes, "axes", ones))]


def _unsqueeze(inputs: Inputs, attributes: Attributes) -> list[Array]:
    return [np.expand_dims(required(inputs, 0), get_ints(attributes, "axes"))]


def _slice(inputs: Inputs, attributes: Attributes) -> list[Array]:
    x, starts = required(inputs, 0), get_ints(attributes, "starts")
    axes = get_ints(attributes, "axes", tuple(range(len(starts))))
    steps = get_ints(attributes, "steps", (1,) * len(starts))
    ends = get_ints(attributes, "ends")
    index = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        index[axis] = slice_of(start, end, step)
    return [np.ascontiguousarray(x[tuple(index)])]


def _expand(inputs: Inputs, attributes: Attributes) -> list[Array]:
    x, target = required(inputs, 0), get_ints(attributes, "shape")
    return [np.ascontiguousarray(np.broadcast_to(x, np.broadcast_shapes(x.shape, target)))]


def _pad(inputs: Inputs, attributes: Attributes) -> list[Array]:
    x, pads = required(inputs, 0), get_ints(attributes, "pads")
    mode = get_str(attributes, "mode", "constant")
    ends = list(zip(pads[: x.ndim], pads[x.ndim :], strict=True))
    grown = [(max(a, 0), max(b, 0)) for a, b in ends]
    index = tuple(
        slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(ends, x.shape, strict=True)
    )
    value = attributes.get("value", 0)
    if mode == "constant":
        return [np.pad(x[index], grown, constant_values=np.asarray(value, x.dtype).item())]
    if mode == "edge":
        return [np.pad(x[index], grown, mode="edge")]
    if mode == "reflect":
        return [np.pad(x[index], grown, mode="reflect")]
    raise ModelError(f"Pad mode={mode} is not supported; constant, edge and reflect are")


def _gather(inputs: Inputs, attributes: Attributes) -> list[Array]:
    indices = required(inputs, 1)
    return [np.take(required(inputs, 0), indices.astype(np.int64), get_int(attributes, "axis", 0))]


def shape_between(shape: tuple[int, ...], attributes: Attributes) -> Array:
    """Return what ONNX Shape gives for a shape: dimensions from `start` on, to before `end`."""
    start, end = get_int(attributes, "start", 0), get_int(attributes, "end", len(shape))
    return np.array(shape[slice(start, end)], np.int64)


def _shape(inputs: Inputs, attributes: Attributes) -> list[Array]:
    return [shape_between(required(inputs, 0).shape, attributes)]


LAYOUT_KERNELS: dict[str, Kernel] = {
    name: _untyped(kernel)
    for name, kernel in {
        "Identity": _identity,
        "Reinterpret": _identity,
        "Flatten": _flatten,
        "Reshape": _reshape,
        "Transpose": _transpose,
        "Squeeze": _squeeze,
        "Unsqueeze": _unsqueeze,
        "Slice": _slice,
        "Expand": _expand,
        "Pad": _pad,
        "Gather": _gather,
        "Shape": _shape,
    }.items()
}
