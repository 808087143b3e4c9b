"""Element-wise and moving operators: exact rules against fractions, NumPy and the host kernels."""

from fractions import Fraction

import numpy as np
import pytest

from tilewright.compiler.ir.graph import Graph, Node, Value
from tilewright.exact import execute
from tilewright.runtime.host import KERNELS
from tilewright.runtime.program import Attribute
from tilewright.runtime.tensor import Array, Quantization, TensorType


def stored(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[TensorType, Array]:
    """A random 8-bit type and all kinds of values in it."""
    dtype = str(rng.choice(["int8", "uint8"]))
    info = np.iinfo(dtype)
    scale = float(np.float32(10 ** rng.uniform(-3, -0.5)))
    zero_point = int(rng.integers(info.min, info.max + 1))
    kind = TensorType(dtype, shape, Quantization((scale,), (zero_point,)))
    return kind, rng.integers(info.min, info.max + 1, shape).astype(dtype)


def both(
    op: str,
    operands: list[tuple[TensorType, Array]],
    y: TensorType,
    attributes: dict[str, Attribute] | None = None,
) -> Array:
    """The exact result, which the host kernel has to give as well."""
    names = tuple(f"x{i}" for i in range(len(operands)))
    values = {n: Value(n, kind) for n, (kind, _) in zip(names, operands, strict=True)}
    node = Node(op, "node", names, ("y",), attributes or {})
    graph = Graph("g", names, ("y",), (node,), {**values, "y": Value("y", y)}, {})
    feeds = {n: array for n, (_, array) in zip(names, operands, strict=True)}
    exact = execute(graph, feeds)["y"]
    kinds = [kind for kind, _ in operands]
    (got,) = KERNELS[op]([array for _, array in operands], node.attributes, kinds, [y])
    np.testing.assert_array_equal(got, exact)
    assert got.dtype == exact.dtype == np.dtype(y.dtype)
    return exact


def zero(kind: TensorType) -> int:
    return kind.quantization.zero_point[0]


def scale(kind: TensorType) -> Fraction:
    return Fraction(kind.quantization.scale[0])


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("op", ["Add", "Sub"])
def test_sums_are_the_rounded_real_sum_or_next_to_it_beside_a_tie(op: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = stored(rng, (2, 3, 17)), stored(rng, (3, 1))
    y, _ = stored(rng, (2, 3, 17))
    low, high = sorted(int(v) for v in rng.integers(np.iinfo(y.dtype).min, 128, 2))
    got = both(op, [a, b], y, {"low": low, "high": high})
    wide = np.broadcast_to(b[1], a[1].shape)
    sign = 1 if op == "Add" else -1
    for x, z, stored_y in zip(a[1].flat, wide.flat, got.flat, strict=True):
        real = (int(x) - zero(a[0])) * scale(a[0]) + sign * (int(z) - zero(b[0])) * scale(b[0])
        steps = real / scale(y)
        right = min(max(round(steps) + zero(y), low), high)
        beside_tie = abs(abs(steps - round(steps)) - Fraction(1, 2)) < abs(steps) / 2**12 + 2**-12
        assert stored_y == right or (beside_tie and abs(int(stored_y) - right) == 1)


def test_equal_scales_add_like_integers() -> None:
    kind = TensorType("int8", (3,), Quantization((0.5,), (2,)))
    a, b = np.array([5, -100, 127], np.int8), np.array([4, -100, 127], np.int8)
    assert both("Add", [(kind, a), (kind, b)], kind).tolist() == [7, -128, 127]


def test_a_tie_of_a_sum_goes_to_the_even_step_before_the_zero_point() -> None:
    x = TensorType("int8", (4,), Quantization((0.5,), (0,)))
    y = TensorType("int8", (4,), Quantization((1.0,), (1,)))
    a, b = np.array([1, 2, 4, -1], np.int8), np.array([0, 1, 1, 0], np.int8)
    assert both("Add", [(x, a), (x, b)], y).tolist() == [1, 3, 3, 1]


@pytest.mark.parametrize("seed", range(40))
def test_products_are_the_rounded_product_of_integers(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = stored(rng, (2, 3, 5)), stored(rng, (2, 3, 1))
    y, _ = stored(rng, (2, 3, 5))
    f32 = np.float32
    ratio = Fraction(
        float(f32(float(scale(a[0]))) * f32(float(scale(b[0]))) / f32(float(scale(y))))
    )
    info = np.iinfo(y.dtype)
    got = both("Mul", [a, b], y)
    wide = np.broadcast_to(b[1], a[1].shape)
    expected = [
        min(
            max(round((int(p) - zero(a[0])) * (int(q) - zero(b[0])) * ratio) + zero(y), info.min),
            info.max,
        )
        for p, q in zip(a[1].flat, wide.flat, strict=True)
    ]
    assert got.reshape(-1).tolist() == expected


@pytest.mark.parametrize("seed", range(30))
def test_concat_requantizes_the_parts_of_other_scales(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = stored(rng, (1, 2, 9)), stored(rng, (1, 3, 9))
    y = TensorType(a[0].dtype, (1, 5, 9), a[0].quantization)
    got = both("Concat", [a, b], y, {"axis": 1})
    np.testing.assert_array_equal(got[:, :2], a[1])
    part = TensorType(y.dtype, (1, 3, 9), y.quantization)
    np.testing.assert_array_equal(got[:, 2:], both("Requantize", [b], part))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("keep", [0, 1])
def test_means_round_the_sum_once(seed: int, keep: int) -> None:
    rng = np.random.default_rng(seed)
    x, (y, _) = stored(rng, (2, 6, 5)), stored(rng, (2, 5))
    got = both("ReduceMean", [x], y, {"axes": (1,), "keepdims": keep})
    assert got.shape == ((2, 1, 5) if keep else (2, 5))
    info = np.iinfo(y.dtype)
    sums = (x[1].astype(np.int64) - zero(x[0])).sum(1)
    ratio = scale(x[0]) / scale(y) / 6
    expected = [min(max(round(int(s) * ratio) + zero(y), info.min), info.max) for s in sums.flat]
    assert np.abs(got.reshape(-1) - np.array(expected)).max() <= 1
    assert (got.reshape(-1) == np.array(expected)).mean() > 0.9


X = np.arange(24, dtype=np.int8).reshape(2, 3, 4)
MOVES: list[tuple[str, dict[str, Attribute], Array]] = [
    ("Expand", {"shape": (5, 1, 3, 1)}, np.broadcast_to(X, (5, 2, 3, 4))),
    ("Flatten", {"axis": 2}, X.reshape(6, 4)),
    ("Flatten", {"axis": 3}, X.reshape(24, 1)),
    ("Pad", {"pads": (0, 1, -1, 2, 0, 1), "mode": "constant", "value": 7},
     np.pad(X[:, :, 1:], [(0, 2), (1, 0), (0, 1)], constant_values=7)),
    ("Reshape", {"shape": (0, -1)}, X.reshape(2, 12)),
    ("Slice", {"starts": (1,), "ends": (2**62,), "axes": (1,), "steps": (1,)}, X[:, 1:]),
    ("Slice", {"starts": (-1, 0), "ends": (-(2**62), -1), "axes": (2, 1), "steps": (-2, 1)},
     X[:, :-1, ::-2]),
    ("Slice", {"starts": (5,), "ends": (9,), "axes": (2,), "steps": (1,)}, X[:, :, 4:]),
    ("Transpose", {"perm": (2, 0, 1)}, X.transpose(2, 0, 1)),
    ("Unsqueeze", {"axes": (0, 3)}, X.reshape(1, 2, 3, 1, 4)),
]  # fmt: skip


@pytest.mark.parametrize(("op", "attributes", "expected"), MOVES)
def test_moving_operators_keep_values_and_scale(op: str, attributes, expected: Array) -> None:
    q = Quantization((0.1,), (3,))
    kind = TensorType("int8", X.shape, q)
    got = both(op, [(kind, X)], TensorType("int8", expected.shape, q), attributes)
    np.testing.assert_array_equal(got, expected)


def test_squeeze_and_gather() -> None:
    q = Quantization((0.1,), (3,))
    kind = TensorType("int8", (2, 1, 3, 4), q)
    wide = X.reshape(2, 1, 3, 4)
    np.testing.assert_array_equal(both("Squeeze", [(kind, wide)], kind, {"axes": (1,)}), X)
    index = np.array([[2, -1], [0, 0]])
    indices = (TensorType("int64", (2, 2)), index)
    got = both("Gather", [(TensorType("int8", X.shape, q), X), indices], kind, {"axis": 1})
    np.testing.assert_array_equal(got, X[:, index])


def test_integers_without_scales_are_joined_as_they_are() -> None:
    kind = TensorType("int64", (2,))
    parts = [(kind, np.array([1, 2])), (kind, np.array([3, 2**40]))]
    y = TensorType("int64", (4,))
    assert both("Concat", parts, y, {"axis": 0}).tolist() == [1, 2, 3, 2**40]
