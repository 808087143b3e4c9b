"""The operator table: for each operator of the graph its type rule and its fusion class.

A host kernel, where there is one, is found by operator name in `runtime.host`, a lowering in
the back-end.  Operators mean what ONNX says; on stored integers, what docs/numerics.md says.
Scales and zero points are in the types.  The forms that `passes.canonicalize` leaves of
quantized operators, `low` and `high` being the clamp in stored units of the output:

  QuantizeLinear(x float) dtype · DequantizeLinear(x): at real borders only
  Conv(x[N,C,H,W], w int8[O,C/group,KH,KW], bias int32[O] or "")
      kernel_shape strides dilations pads(t,l,b,r) group low high; one spatial dimension
      becomes H = 1 between Unsqueeze and Squeeze; w has one scale and zero point, or one a channel
      (axis 0).  Output int32: the accumulators, without low and high.
  MatMul(x[…,K], w int8[K,M] constant, bias int32[M] or "") low high; w by column on axis 1.
  MatMul(a[…,N,K], b[…,K,M], "") low high: two activations, batched as NumPy's matmul.
  AveragePool(x) kernel_shape strides dilations pads count_include_pad low high: GlobalAveragePool
      and ReduceMean over H×W are one over all of H×W; padding is the zero point.
  MaxPool(x) kernel_shape strides dilations pads: keeps the quantization; padding never wins.
  Add(a, b), Sub(a, b), Mul(a, b) low high: NumPy broadcasting, either one may be a constant.
      Mul and Div by one positive number become a Reinterpret.
  Concat(x…) axis low high: parts of another scale or type are requantized.
  ReduceMean(x) axes keepdims low high: over other axes than H×W.
  Requantize(x) low high: another scale, zero point or type; a Relu or Clip that found no producer.
      Without scales on both sides it is a clamp.
  Reinterpret(x): the same integers under another scale: an alias.
  Reshape(x) shape [allowzero] · Flatten(x) axis · Squeeze(x) axes · Unsqueeze(x) axes: an alias
      of the elements in order; never two in a row.
  Transpose(x) perm · Slice(x) starts ends axes steps (Split is one Slice a part) · Expand(x) shape
      Gather(x, indices) axis · Pad(x) pads mode value (in stored units): movement, no arithmetic.
      A constant Pad is gone where the Conv or pool after it pads with that value.

Axes count from the front and are written out; every other operator is real-valued or for the host.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

import numpy as np

from tilewright.compiler.ir import dims
from tilewright.hw.errors import ModelError
from tilewright.runtime.attributes import get_int, get_ints, get_str
from tilewright.runtime.host.layout import slice_of
from tilewright.runtime.program import Attribute
from tilewright.runtime.tensor import Dim, TensorType

Operands = tuple[TensorType | None, ...]
TypeRule = Callable[[Operands, Mapping[str, Attribute]], tuple[TensorType, ...]]


class Fusion(Enum):
    """How an operator takes part in fusion."""

    ACCUMULATE = "accumulate"
    """Multiplies and adds into int32; its clamp and requantization are part of it."""
    POOL = "pool"
    """Reduces windows; a clamp can be part of it."""
    CLAMP = "clamp"
    """Becomes the clamp of the operator before it, or a Requantize."""
    LAYOUT = "layout"
    """Moves values without changing them: input and output share a quantization."""
    ELEMENTWISE = "elementwise"
    """One output value for each position; quantized, it computes on the real values."""
    BORDER = "border"
    """Between real and stored values."""
    OPAQUE = "opaque"
    """None of these: runs on its own."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One row of the table.  `infer` gives output types without quantization."""

    name: str
    fusion: Fusion
    infer: TypeRule


def _first(inputs: Operands) -> TensorType:
    kind = inputs[0] if inputs else None
    if kind is None:
        raise ModelError("its first input is missing")
    return kind


def _second(inputs: Operands) -> TensorType:
    kind = inputs[1] if len(inputs) > 1 else None
    if kind is None:
        raise ModelError("its second input is missing")
    return kind


def _present(inputs: Operands) -> list[TensorType]:
    return [kind for kind in inputs if kind is not None]


def _size(dim: Dim, what: str) -> int:
    if isinstance(dim, str):
        raise ModelError(f"{what} is the symbol {dim!r}; fix it in the model")
    return dim


def _same(inputs: Operands, _: Mapping[str, Attribute]) -> tuple[TensorType, ...]:
    x = _first(inputs)
    return (TensorType(x.dtype, x.shape),)


def _dequantized(inputs: Operands, _: Mapping[str, Attribute]) -> tuple[TensorType, ...]:
    return (TensorType("float32", _first(inputs).shape),)


def _quantized(inputs: Operands, attributes: Mapping[str, Attribute]) -> tuple[TensorType, ...]:
    return (TensorType(get_str(attributes, "dtype"), _first(inputs).shape),)


def _broadcast(inputs: Operands, _: Mapping[str, Attribute]) -> tuple[TensorType, ...]:
    kinds = _present(inputs)
    return (TensorType(_first(inputs).dtype, dims.broadcast([k.shape for k in kinds])),)


def _binary(inputs: Operands, attributes: Mapping[str, Attribute]) -> tuple[TensorType, ...]:
    _second(inputs)
    return _broadcast(inputs, attributes)


def _compared(inputs: Operands, _: Mapping[str, Attribute]) -> tuple[TensorType, ...]:
    return (TensorType("bool", dims.broadcast([k.shape for k in _present(inputs)])),)


def _where(inputs: Operands, _: Mapping[str, Attribute]) -> tuple[TensorType, ...]:
    shape = dims.broadcast([k.shape for k in _present(inputs)])
    return (TensorType(_second(inputs).dtype, shape),)


def _windows(
    x: TensorType, kernel: tuple[int, ...], attributes: Mapping[str, Attribute]
) -> tuple[Dim, ...]:
    """Spatial output sizes; pads are all begins, then all ends."""
    rank = len(kernel)
    if len(x.shape) != rank + 2:
        raise ModelError(f"its input is {x}; {rank + 2} dimensions are needed for {rank}-D windows")
    strides, dilations = get_ints(attributes, "strides"), get_ints(attributes, "dilations")
    pads = get_ints(attributes, "pads")
    sizes = []
    for i, dim in enumerate(x.shape[2:]):
        size = dims.window(
            _size(dim, f"spatial dimension {i}"),
            kernel=kernel[i],
            stride=strides[i],
            dilation=dilations[i],
            pads=pads[i] + pads[rank + i],
        )
        if size < 1:
            raise ModelError(f"its window {list(kernel)} does not fit its input {x}")
        sizes.append(size)
    return tuple(sizes)


def _conv(inputs: Operands, attributes: Mapping[str, Attribute]) -> tuple[TensorType, ...]:
    """x[N, C, *], w[O, C/group, *], bias[O]; strides, pads, dilations, group."""
    x, w = _first(inputs), _second(inputs)
    group = get_int(attributes, "group")
    out_channels, depth = _size(w.shape[0], "its weight"), _size(w.shape[1], "its weight")
    if x.shape[1] != depth * group or out_channels % group:
        raise ModelError(f"its input {x} and weight {w} do not fit with group={group}")
    kernel = tuple(_size(d, "its weight") for d in w.shape[2:])
    return (TensorType(x.dtype, (x.shape[0], out_channels, *_windows(x, kernel, attributes))),)


def _pool(inputs: Operands, attributes: Mapping[str, Attribute]) -> tuple[TensorType, ...]:
    """x[N, C, *]; kernel_shape, strides, pads, dilations."""
    x = _first(inputs)
    kernel = get_ints(attributes, "kernel_shape")
    return (TensorType(x.dtype, (*x.shape[:2], *_windows(x, kernel, attributes))),)


def _matmul(inputs: Operands, _: Mapping[str, Attribute]) -> tuple[TensorType, ...]:
    """NumPy's matmul; the third input, if any, is a bias over the last axis."""
    x, w = _first(inputs), _second(inputs)
    if not x.shape or not w.shape:
        raise ModelError(f"it cannot multiply {x} by {w}")
    left = x.shape if len(x.shape) > 1 else (1, *x.shape)
    right = w.shape if len(w.shape) > 1 else (*w.shape, 1)
    if all(isinstance(d, int) for d in (left[-1], right[-2])) and left[-1] != right[-2]:
        raise ModelError(f"it cannot multiply {x} by {w}: {left[-1]} columns, {right[-2]} rows")
    shape = [*dims.broadcast([left[:-2], right[:-2]]), left[-2], right[-1]]
    if len(w.shape) == 1:
        shape.pop(-1)
    if len(x.shape) == 1:
        shape.pop(-1 if len(w.shape) == 1 else -2)
    return (TensorType(x.dtype, tuple(shape)),)


def _gemm(inputs: Operands, attributes: Mapping[str, Attribute]) -> tuple[TensorType, ...]:
    x, w = _first(inputs), _second(inputs)
    rows = x.shape[::-1] if get_int(attributes, "transA", 0) else x.shape
    columns = w.shape[::-1] if get_int(attributes, "transB", 0) else w.shape
    return _matmul((TensorType(x.dtype, rows), TensorType(w.dtype, columns)), {})


def _flatten(inputs: Operands, attributes: Mapping[str, Attribute]) -> tuple[TensorType, ...]:
    x, axis = _first(inputs), get_int(attributes, "axis", 1)
    at = axis + len(x.shape) if axis < 0 else axis
    return (TensorType(x.dtype, (dims.product(x.shape[:at]), dims.product(x.shape[at:]))),)


def _reshape(inputs: Operands, attributes: Mapping[str, Attribute]) -> tuple[TensorType, ...]:
    x, target = _first(inputs), get_ints(attributes, "shape")
    allow_zero = bool(get_int(attributes, "allowzero", 0))
    return (TensorType(x.dtype, dims.reshape(x.shape, target, allow_zero=allow_zero)),)


def _transpose(inputs: Operands, attributes: Mapping[str, Attribute]) -> tuple[TensorType, ...]:
    x = _first(inputs)
    order = get_ints(attributes, "perm", tuple(range(len(x.shape)))[::-1])
    return (TensorType(x.dtype, tuple(x.shape[i] for i in order)),)


def _squeeze(inputs: Operands, attributes: Mapping[str, Attribute]) -> tuple[TensorType, ...]:
    x = _first(inputs)
    ones = tuple(i for i, d in enumerate(x.shape) if d == 1)
    axes = {a % len(x.shape) for a in get_ints(attributes, "axes", ones)}
    return (TensorType(x.dtype, tuple(d for i, d in enumerate(x.shape) if i not in axes)),)


def _unsqueeze(inputs: Operands, attributes: Mapping[str, Attribute]) -> tuple[TensorType, ...]:
    x, axes = _first(inputs), get_ints(attributes, "axes")
    rank = len(x.shape) + len(axes)
    new, old = {a % rank for a in axes}, iter(x.shape)
    return (TensorType(x.dtype, tuple(1 if i in new else next(old) for i in range(rank))),)


def _both_known(a: Dim, b: Dim) -> bool:
    return isinstance(a, int) and isinstance(b, int)


def _concat(inputs: Operands, attributes: Mapping[str, Attribute]) -> tuple[TensorType, ...]:
    kinds = _present(inputs)
    x, axis = _first(inputs), get_int(attributes, "axis") % len(_first(inputs).shape)
    parts = [_size(k.shape[axis], f"axis {axis} of a part") for k in kinds]
    others = [k.shape[:axis] + k.shape[axis + 1 :] for k in kinds]
    for kind, sizes in zip(kinds, others, strict=True):
        differ = [a != b for a, b in zip(sizes, others[0], strict=True) if _both_known(a, b)]
        if any(differ) or kind.dtype != x.dtype:
            raise ModelError(f"its parts {x} and {kind} do not fit along axis {axis}")
    return (TensorType(x.dtype, (*x.shape[:axis], sum(parts), *x.shape[axis + 1 :])),)


def _pad(inputs: Operands, attributes: Mapping[str, Attribute]) -> tuple[TensorType, ...]:
    """x; pads has all begins, then all ends."""
    x, pads = _first(inputs), get_ints(attributes, "pads")
    rank = len(x.shape)
    grown = [
        dim if not (extra := pads[i] + pads[rank + i]) else _size(dim, f"axis {i}") + extra
        for i, dim in enumerate(x.shape)
    ]
    return (TensorType(x.dtype, tuple(grown)),)


def _slice(inputs: Operands, attributes: Mapping[str, Attribute]) -> tuple[TensorType, ...]:
    x = _first(inputs)
    starts, ends = get_ints(attributes, "starts"), get_ints(attributes, "ends")
    axes = get_ints(attributes, "axes", tuple(range(len(starts))))
    steps = get_ints(attributes, "steps", (1,) * len(starts))
    shape = list(x.shape)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        size = _size(shape[axis], f"axis {axis}")
        shape[axis] = len(range(size)[slice_of(start, end, step)])
    return (TensorType(x.dtype, tuple(shape)),)


def _gather(inputs: Operands, attributes: Mapping[str, Attribute]) -> tuple[TensorType, ...]:
    x, index = _first(inputs), _second(inputs)
    axis = get_int(attributes, "axis", 0) % len(x.shape)
    return (TensorType(x.dtype, (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])),)


def _reduce(inputs: Operands, attributes: Mapping[str, Attribute]) -> tuple[TensorType, ...]:
    x = _first(inputs)
    rank = len(x.shape)
    axes = {a % rank for a in get_ints(attributes, "axes", tuple(range(rank)))}
    keep = get_int(attributes, "keepdims", 1)
    shape = [1 if i in axes else d for i, d in enumerate(x.shape) if keep or i not in axes]
    return (TensorType(x.dtype, tuple(shape)),)


def _expand(inputs: Operands, attributes: Mapping[str, Attribute]) -> tuple[TensorType, ...]:
    x = _first(inputs)
    return (TensorType(x.dtype, dims.broadcast([x.shape, get_ints(attributes, "shape")])),)


def _shape(inputs: Operands, attributes: Mapping[str, Attribute]) -> tuple[TensorType, ...]:
    rank = len(_first(inputs).shape)
    start, end = get_int(attributes, "start", 0), get_int(attributes, "end", rank)
    return (TensorType("int64", (len(range(rank)[start:end]),)),)


def _cast(inputs: Operands, attributes: Mapping[str, Attribute]) -> tuple[TensorType, ...]:
    return (TensorType(get_str(attributes, "dtype"), _first(inputs).shape),)


def _rows(fusion: Fusion, infer: TypeRule, *names: str) -> list[Operator]:
    return [Operator(name, fusion, infer) for name in names]


UNARY = (
    *("Abs", "Ceil", "Cos", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish"),
    *("LeakyRelu", "Log", "Neg", "Reciprocal", "Round", "Selu", "Sigmoid", "Sign", "Sin"),
    *("Softplus", "Sqrt", "Tanh", "Not"),
)
BINARY = ("Add", "Div", "Mod", "Mul", "PRelu", "Pow", "Sub", "And", "Or", "Xor")
COMPARISONS = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")
REDUCTIONS = ("ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceL2")

OPERATORS: Mapping[str, Operator] = {
    row.name: row
    for row in (
        Operator("Conv", Fusion.ACCUMULATE, _conv),
        Operator("MatMul", Fusion.ACCUMULATE, _matmul),
        Operator("Gemm", Fusion.ACCUMULATE, _gemm),
        Operator("AveragePool", Fusion.POOL, _pool),
        Operator("MaxPool", Fusion.POOL, _pool),
        *_rows(Fusion.CLAMP, _same, "Relu", "Clip"),
        Operator("Requantize", Fusion.BORDER, _same),
        Operator("QuantizeLinear", Fusion.BORDER, _quantized),
        Operator("DequantizeLinear", Fusion.BORDER, _dequantized),
        *_rows(Fusion.LAYOUT, _same, "Identity", "Reinterpret"),
        Operator("Flatten", Fusion.LAYOUT, _flatten),
        Operator("Reshape", Fusion.LAYOUT, _reshape),
        Operator("Transpose", Fusion.LAYOUT, _transpose),
        Operator("Squeeze", Fusion.LAYOUT, _squeeze),
        Operator("Unsqueeze", Fusion.LAYOUT, _unsqueeze),
        Operator("Slice", Fusion.LAYOUT, _slice),
        Operator("Expand", Fusion.LAYOUT, _expand),
        Operator("Gather", Fusion.OPAQUE, _gather),
        Operator("Pad", Fusion.OPAQUE, _pad),
        Operator("Concat", Fusion.ELEMENTWISE, _concat),
        *_rows(Fusion.ELEMENTWISE, _same, *UNARY),
        *_rows(Fusion.ELEMENTWISE, _binary, *BINARY),
        *_rows(Fusion.ELEMENTWISE, _broadcast, "Max", "Min"),
        *_rows(Fusion.OPAQUE, _compared, *COMPARISONS),
        Operator("Where", Fusion.OPAQUE, _where),
        *_rows(Fusion.ELEMENTWISE, _same, "Softmax", "LogSoftmax"),
        *_rows(Fusion.OPAQUE, _same, "LayerNormalization", "BatchNormalization"),
        *_rows(Fusion.ELEMENTWISE, _reduce, *REDUCTIONS),
        Operator("Shape", Fusion.OPAQUE, _shape),
        Operator("Cast", Fusion.OPAQUE, _cast),
    )
}


def infer_types(
    op: str, name: str, inputs: Operands, attributes: Mapping[str, Attribute]
) -> tuple[TensorType, ...]:
    """Return a node's output types, without quantization.

    Raises:
        ModelError: an operator that is not in the table, or operands that do not fit it.
    """
    if op not in OPERATORS:
        raise ModelError(f"node {name!r}: operator {op} is not supported; export it without")
    try:
        return OPERATORS[op].infer(inputs, attributes)
    except ModelError as error:
        raise ModelError(f"node {name!r}: {op}: {error}") from None
    except (IndexError, ValueError, ZeroDivisionError) as error:
        shapes = ", ".join("absent" if kind is None else str(kind) for kind in inputs)
        raise ModelError(f"node {name!r}: {op} does not fit {shapes} ({error})") from error


def stored_range(dtype: str) -> tuple[int, int]:
    """Return the least and the greatest value of an integer element type."""
    info = np.iinfo(np.dtype(dtype))
    return int(info.min), int(info.max)
