"""The exact reference's rules for operators that move values: no arithmetic, any element type."""

import numpy as np

from tilewright.exact_arithmetic import Layer
from tilewright.exact_rules import Rule
from tilewright.runtime.attributes import get_int, get_ints
from tilewright.runtime.tensor import Array


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


def _squeeze(layer: Layer) -> list[Array]:
    x = layer.array(0)
    axes = get_ints(layer.node.attributes, "axes", tuple(range(x.ndim)))
    gone = {axis % x.ndim for axis in axes if x.shape[axis] == 1}
    return [x.reshape([size for i, size in enumerate(x.shape) if i not in gone])]


def _unsqueeze(layer: Layer) -> list[Array]:
    x, axes = layer.array(0), get_ints(layer.node.attributes, "axes")
    rank = x.ndim + len(axes)
    shape = list(x.shape)
    for axis in sorted(axis % rank for axis in axes):
        shape.insert(axis, 1)
    return [x.reshape(shape)]


def _transpose(layer: Layer) -> list[Array]:
    x = layer.array(0)
    return [x.transpose(get_ints(layer.node.attributes, "perm", tuple(range(x.ndim))[::-1]))]


def _expand(layer: Layer) -> list[Array]:
    x, target = layer.array(0), get_ints(layer.node.attributes, "shape")
    rank = max(x.ndim, len(target))
    own, wanted = (1,) * (rank - x.ndim) + x.shape, (1,) * (rank - len(target)) + target
    copies = [w if o == 1 else 1 for o, w in zip(own, wanted, strict=True)]
    return [np.tile(x.reshape(own), copies)]


def _slice(layer: Layer) -> list[Array]:
    """ONNX Slice: starts and ends count from the end when negative, then are clamped."""
    x, attributes = layer.array(0), layer.node.attributes
    starts, ends = get_ints(attributes, "starts"), get_ints(attributes, "ends")
    axes = get_ints(attributes, "axes", tuple(range(len(starts))))
    steps = get_ints(attributes, "steps", (1,) * len(starts))
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        size = x.shape[axis]
        last = size if step > 0 else size - 1
        first = min(max(start + size if start < 0 else start, 0), last)
        until = min(max(end + size if end < 0 else end, 0 if step > 0 else -1), last)
        x = np.take(x, list(range(first, until, step)), axis)
    return [x]


def _gather(layer: Layer) -> list[Array]:
    x, axis = layer.array(0), get_int(layer.node.attributes, "axis", 0) % layer.array(0).ndim
    index = (slice(None),) * axis + (layer.array(1),)
    return [x[index]]


def _pad(layer: Layer) -> list[Array]:
    x, pads = layer.array(0), get_ints(layer.node.attributes, "pads")
    value = np.asarray(layer.node.attributes.get("value", 0), x.dtype)
    result = x
    for axis, (before, after) in enumerate(zip(pads[: x.ndim], pads[x.ndim :], strict=True)):
        kept = range(max(-before, 0), x.shape[axis] - max(-after, 0))
        result = np.take(result, list(kept), axis)
        border = [*result.shape]
        parts = [result]
        for size, at in ((before, 0), (after, len(parts) + 1)):
            if size > 0:
                border[axis] = size
                parts.insert(at, np.full(border, value))
        result = np.concatenate(parts, axis)
    return [result]


def _concat(layer: Layer) -> list[Array]:
    parts = [layer.array(i) for i in range(len(layer.arrays))]
    return [np.concatenate(parts, get_int(layer.node.attributes, "axis"))]


LAYOUT_RULES: dict[str, Rule] = {
    "Expand": _expand,
    "Flatten": _flatten,
    "Gather": _gather,
    "Identity": _same,
    "Pad": _pad,
    "Reinterpret": _same,
    "Reshape": _reshape,
    "Slice": _slice,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}

UNSCALED_RULES: dict[str, Rule] = {"Concat": _concat}
"""Where no input has a scale."""
