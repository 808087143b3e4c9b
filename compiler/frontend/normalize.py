"""Attributes in one normal form: defaults written out, auto_pad and ceil_mode resolved."""

from collections.abc import Mapping

from tilewright.compiler.frontend.builder import GraphBuilder
from tilewright.compiler.frontend.onnx_node import OnnxNode, constant_input
from tilewright.compiler.ir.operators import REDUCTIONS
from tilewright.hw.errors import ModelError
from tilewright.runtime.attributes import get_int, get_ints, get_str
from tilewright.runtime.program import Attribute

ARGUMENTS: dict[str, dict[int, str]] = {
    "Clip": {1: "min", 2: "max"},
    "Expand": {1: "shape"},
    "Pad": {1: "pads", 2: "value", 3: "axes"},
    "Reshape": {1: "shape"},
    "Slice": {1: "starts", 2: "ends", 3: "axes", 4: "steps"},
    "Split": {1: "split"},
    "Squeeze": {1: "axes"},
    "Unsqueeze": {1: "axes"},
    **{name: {1: "axes"} for name in REDUCTIONS},
}
"""Inputs that become attributes; the model has to give them as constants."""

_SCALARS = {"min", "max", "value"}


def arguments(b: GraphBuilder, node: OnnxNode) -> dict[str, Attribute]:
    """Return the attributes with constant inputs among them."""
    result = dict(node.attributes)
    for index, key in ARGUMENTS.get(node.op, {}).items():
        if not node.input(index):
            continue
        array = constant_input(b, node, index, key)
        if key in _SCALARS:
            result[key] = array.item()
        else:
            result[key] = tuple(int(v) for v in array.reshape(-1))
    return result


def window_attributes(
    b: GraphBuilder, node: OnnxNode, x: str, kernel: tuple[int, ...] | None
) -> dict[str, Attribute]:
    """Return kernel_shape, strides, dilations and pads of a convolution or pooling of `x`.

    `kernel` is the weight's, None for a pool.  auto_pad needs static spatial sizes.  ceil_mode
    becomes padding at the end (ONNX AveragePool, opset 22: a window that would start in
    the end padding is left out).
    """
    given = node.attributes
    window = kernel or get_ints(given, "kernel_shape")
    rank, ones = len(window), (1,) * len(window)
    if kernel and get_ints(given, "kernel_shape", kernel) != kernel:
        raise ModelError(
            f"{node}: kernel_shape={list(get_ints(given, 'kernel_shape'))}, weight {list(kernel)}"
        )
    if len(b.type(x).shape) != rank + 2:
        raise ModelError(f"{node}: its input {b.type(x)} does not fit the kernel {list(window)}")
    strides = get_ints(given, "strides", ones)
    dilations = get_ints(given, "dilations", ones)
    pads = list(get_ints(given, "pads", (0,) * (2 * rank)))
    _check_window(node, rank, {"kernel_shape": window, "strides": strides, "dilations": dilations})
    if len(pads) != 2 * rank or min(pads, default=0) < 0:
        raise ModelError(f"{node}: pads={pads}; {2 * rank} numbers are needed, none negative")
    auto_pad = get_str(given, "auto_pad", "NOTSET")
    spatial = b.type(x).shape[2:]
    extents = [d * (k - 1) + 1 for k, d in zip(window, dilations, strict=True)]
    if auto_pad not in {"NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"}:
        raise ModelError(f"{node}: auto_pad={auto_pad} is unknown")
    if auto_pad == "VALID":
        pads = [0] * (2 * rank)
    ceil_mode = auto_pad == "NOTSET" and get_int(given, "ceil_mode", 0) == 1
    for i, size in enumerate(spatial):
        if not auto_pad.startswith("SAME") and not ceil_mode:
            continue
        if isinstance(size, str):
            raise ModelError(f"{node}: spatial dimension {size!r} has to be a number")
        if auto_pad.startswith("SAME"):
            total = max((-(-size // strides[i]) - 1) * strides[i] + extents[i] - size, 0)
            less, more = total // 2, total - total // 2
            pads[i], pads[rank + i] = (less, more) if auto_pad == "SAME_UPPER" else (more, less)
        else:
            pads[rank + i] += _ceil_padding(size, extents[i], strides[i], pads[i], pads[rank + i])
    return {
        "kernel_shape": window,
        "strides": strides,
        "dilations": dilations,
        "pads": tuple(pads),
    }


def _check_window(node: OnnxNode, rank: int, given: Mapping[str, tuple[int, ...]]) -> None:
    for key, values in given.items():
        if len(values) != rank or min(values, default=1) < 1:
            raise ModelError(
                f"{node}: {key}={list(values)}; {rank} numbers are needed, all above zero"
            )


def _ceil_padding(size: int, extent: int, stride: int, begin: int, end: int) -> int:
    padded = size + begin + end
    count = -(-(padded - extent) // stride) + 1
    if (count - 1) * stride >= size + begin:
        count -= 1
    return max((count - 1) * stride + extent - padded, 0)


def counted(node: OnnxNode, axes: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Return axes counted from the front.

    Raises:
        ModelError: an axis that a tensor of this rank lacks, or one named twice.
    """
    front = tuple(axis + rank if axis < 0 else axis for axis in axes)
    if any(not 0 <= axis < rank for axis in front) or len(set(front)) != len(front):
        raise ModelError(f"{node}: axes={list(axes)} do not fit {rank} dimensions")
    return front


def pad_attributes(b: GraphBuilder, node: OnnxNode) -> dict[str, Attribute]:
    """Return pads over all axes (begins, then ends), mode and value of a Pad."""
    given = arguments(b, node)
    rank = len(b.type(node.inputs[0]).shape)
    pads, axes = get_ints(given, "pads"), get_ints(given, "axes", tuple(range(rank)))
    mode, value = get_str(given, "mode", "constant"), given.get("value", 0)
    if mode not in {"constant", "edge", "reflect"}:
        raise ModelError(f"{node}: mode={mode} is not supported; constant, edge and reflect are")
    full = [0] * (2 * rank)
    if len(pads) != 2 * len(axes):
        raise ModelError(f"{node}: pads={list(pads)}; {2 * len(axes)} numbers are needed")
    for i, axis in enumerate(counted(node, axes, rank)):
        full[axis], full[rank + axis] = pads[i], pads[len(axes) + i]
    return {"pads": tuple(full), "mode": mode, "value": value}


def split_sizes(b: GraphBuilder, node: OnnxNode) -> tuple[int, tuple[int, ...]]:
    """Return axis and the part sizes of a Split."""
    given = arguments(b, node)
    shape = b.type(node.inputs[0]).shape
    (axis,) = counted(node, (get_int(given, "axis", 0),), len(shape))
    size = shape[axis]
    if "split" in given:
        parts = get_ints(given, "split")
        if isinstance(size, int) and (sum(parts) != size or min(parts, default=0) < 0):
            raise ModelError(f"{node}: split={list(parts)} does not add up to {size}")
        return axis, parts
    if isinstance(size, str):
        raise ModelError(f"{node}: axis {axis} has to be a number")
    part = -(-size // len(node.outputs))
    rest = size - part * (len(node.outputs) - 1)
    return axis, (part,) * (len(node.outputs) - 1) + (rest,)


_AXIS = {"Concat": 0, "Gather": 0, "Flatten": 1, "LayerNormalization": -1}
"""Operators whose attribute `axis` counts axes of their first input, and its default."""


def from_the_front(
    b: GraphBuilder, node: OnnxNode, attributes: dict[str, Attribute]
) -> dict[str, Attribute]:
    """Return the attributes with axes counted from the front and defaults written out."""
    result, kind = dict(attributes), b.type(node.inputs[0])
    rank = len(kind.shape)
    if node.op in _AXIS:
        last = rank if node.op == "Flatten" else rank - 1
        axis = get_int(result, "axis", _AXIS[node.op])
        if not -rank <= axis <= last:
            raise ModelError(f"{node}: axis={axis} is outside its input {kind}")
        result["axis"] = axis + rank if axis < 0 else axis
    elif node.op == "Transpose":
        perm = get_ints(result, "perm", tuple(range(rank))[::-1])
        if sorted(perm) != list(range(rank)):
            raise ModelError(f"{node}: perm={list(perm)} does not order the axes of {kind}")
        result["perm"] = perm
    elif node.op == "Unsqueeze":
        axes = get_ints(result, "axes")
        grown = rank + len(axes)
        result["axes"] = tuple(sorted(counted(node, axes, grown)))
    elif node.op == "Squeeze":
        ones = tuple(i for i, dim in enumerate(kind.shape) if dim == 1)
        result["axes"] = tuple(sorted(counted(node, get_ints(result, "axes", ones), rank)))
    elif node.op == "Slice":
        starts = get_ints(result, "starts")
        axes = get_ints(result, "axes", tuple(range(len(starts))))
        result["axes"] = counted(node, axes, rank)
        result["steps"] = get_ints(result, "steps", (1,) * len(starts))
    return result
