"""The exact executor against hand arithmetic, stored cases, and the host kernels."""

import json
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from tilewright.compiler.ir.graph import Graph, Node, Value
from tilewright.compiler.load import load
from tilewright.compiler.passes.bind_shapes import bind_shapes
from tilewright.exact import execute
from tilewright.hw.errors import ModelError
from tilewright.runtime.host import KERNELS
from tilewright.runtime.tensor import Array, Quantization, TensorType

CASES = Path(__file__).parents[1] / "cases"
TABLE = json.loads((CASES / "cases.json").read_text())


def one_node(
    op: str,
    x: TensorType,
    y: TensorType,
    attributes: dict[str, int | tuple[int, ...]],
    weight: tuple[Array, Quantization | None] | None = None,
    bias: Array | None = None,
) -> Graph:
    values, constants, inputs = {"x": Value("x", x), "y": Value("y", y)}, {}, ["x"]
    if weight:
        constants["w"] = weight[0]
        kind = TensorType(str(weight[0].dtype), weight[0].shape, weight[1])
        values["w"] = Value("w", kind)
        inputs += ["w", "" if bias is None else "b"]
    if bias is not None:
        constants["b"] = bias
        values["b"] = Value("b", TensorType("int32", bias.shape))
    node = Node(op, "node", tuple(inputs), ("y",), attributes)
    return Graph("g", ("x",), ("y",), (node,), values, constants)


def host(graph: Graph, x: Array) -> Array:
    node = graph.nodes[0]
    arrays = [x if n == "x" else graph.constants[n] if n else None for n in node.inputs]
    kinds = [graph.type(n) if n else None for n in node.inputs]
    return KERNELS[node.op](arrays, node.attributes, kinds, [graph.type("y")])[0]


@pytest.mark.parametrize("case", TABLE, ids=[case["name"] for case in TABLE])
def test_stored_cases_come_out_exactly(case) -> None:
    folder = CASES / case["name"]
    graph = load(folder / "model.onnx")
    for given, expected in case["sets"]:
        arrays, right = np.load(folder / given), np.load(folder / expected)
        feeds = dict(zip(case["inputs"], arrays.values(), strict=True))
        sizes = {
            dim: size
            for value in graph.inputs
            for dim, size in zip(value.shape, feeds[value.name].shape, strict=True)
            if isinstance(dim, str)
        }
        bound = bind_shapes(graph, sizes)
        tensors = {**bound.constants, **feeds}
        for node in bound.nodes:
            kinds = [bound.type(n) if n else None for n in node.inputs]
            results = KERNELS[node.op](
                [tensors[n] if n else None for n in node.inputs],
                node.attributes,
                kinds,
                [bound.type(n) for n in node.outputs],
            )
            tensors.update(zip(node.outputs, results, strict=True))
        exact = execute(bound, feeds, tensors)
        for i, name in enumerate(case["outputs"]):
            np.testing.assert_array_equal(exact[name], right[f"output_{i}"])
            np.testing.assert_array_equal(tensors[name], right[f"output_{i}"])


def random_quantization(rng: np.random.Generator, dtype: str) -> Quantization:
    low, high = (-128, 128) if dtype == "int8" else (0, 256)
    scale = float(np.float32(10 ** rng.uniform(-3, -0.5)))
    return Quantization((scale,), (int(rng.integers(low, high)),))


@pytest.mark.parametrize("seed", range(40))
def test_convolutions_agree_with_the_host_kernel(seed: int) -> None:
    rng = np.random.default_rng(seed)
    group = int(rng.choice([1, 1, 2, 3]))
    depth, outputs = int(rng.integers(1, 5)), group * int(rng.integers(1, 5))
    kernel = tuple(int(k) for k in rng.integers(1, 4, 2))
    size = tuple(int(s) for s in rng.integers(7, 10, 2))
    attributes = {
        "group": group,
        "strides": tuple(int(s) for s in rng.integers(1, 4, 2)),
        "pads": tuple(int(p) for p in rng.integers(0, 3, 4)),
        "dilations": tuple(int(d) for d in rng.integers(1, 3, 2)),
        "low": -int(rng.integers(50, 129)),
        "high": int(rng.integers(50, 128)),
    }
    x_dtype = str(rng.choice(["int8", "uint8"]))
    x_type = TensorType(x_dtype, (2, group * depth, *size), random_quantization(rng, x_dtype))
    per_channel = bool(rng.integers(2))
    count = outputs if per_channel else 1
    scales = tuple(float(np.float32(s)) for s in 10 ** rng.uniform(-3, -1, count))
    zeros = tuple(int(z) for z in rng.integers(-4, 5, count))
    w = rng.integers(-128, 128, (outputs, depth, *kernel)).astype(np.int8)
    b = rng.integers(-5000, 5000, outputs).astype(np.int32) if rng.integers(2) else None
    y_type = TensorType("int8", (), random_quantization(rng, "int8"))
    quantization = Quantization(scales, zeros, 0 if per_channel and outputs > 1 else None)
    graph = one_node("Conv", x_type, y_type, attributes, (w, quantization), b)
    limits = np.iinfo(x_dtype)
    x = rng.integers(limits.min, limits.max + 1, x_type.static_shape).astype(x_dtype)
    np.testing.assert_array_equal(execute(graph, {"x": x})["y"], host(graph, x))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("op", ["AveragePool", "MaxPool"])
def test_pools_agree_with_the_host_kernel(op: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    kernel = tuple(int(k) for k in rng.integers(2, 4, 2))
    attributes = {
        "kernel_shape": kernel,
        "strides": tuple(int(s) for s in rng.integers(1, 4, 2)),
        "pads": tuple(int(p) for p in rng.integers(0, 2, 4)),
        "dilations": (1, 1),
    }
    x_type = TensorType("int8", (2, 3, 7, 8), random_quantization(rng, "int8"))
    y_type = x_type
    if op == "AveragePool":
        attributes["count_include_pad"] = int(rng.integers(2))
        y_type = TensorType("int8", (), random_quantization(rng, "int8"))
    graph = one_node(op, x_type, y_type, attributes)
    x = rng.integers(-128, 128, x_type.static_shape).astype(np.int8)
    np.testing.assert_array_equal(execute(graph, {"x": x})["y"], host(graph, x))


@pytest.mark.parametrize("seed", range(20))
def test_requantize_is_the_rounded_fraction(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x_type = TensorType("int8", (256,), random_quantization(rng, "int8"))
    y_type = TensorType("uint8", (256,), random_quantization(rng, "uint8"))
    graph = one_node("Requantize", x_type, y_type, {"low": 3, "high": 250})
    x = np.arange(-128, 128).astype(np.int8)
    ratio = Fraction(
        float(np.float32(x_type.quantization.scale[0]) / np.float32(y_type.quantization.scale[0]))
    )
    zx, zy = x_type.quantization.zero_point[0], y_type.quantization.zero_point[0]
    expected = [min(max(round((int(v) - zx) * ratio) + zy, 3), 250) for v in x]
    assert execute(graph, {"x": x})["y"].tolist() == expected
    np.testing.assert_array_equal(host(graph, x), expected)


def test_ties_round_to_even_before_the_zero_point_is_added() -> None:
    x_type = TensorType("int8", (6,), Quantization((0.5,), (0,)))
    y_type = TensorType("int8", (6,), Quantization((1.0,), (3,)))
    graph = one_node("Requantize", x_type, y_type, {})
    x = np.array([-3, -1, 1, 3, 5, 7], np.int8)
    assert execute(graph, {"x": x})["y"].tolist() == [1, 3, 3, 5, 5, 7]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_what_is_no_number_or_too_large_saturates_without_a_warning(dtype: str) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 3e38, -3e38], np.float32)
    kind = TensorType(dtype, x.shape, Quantization((0.1,), (7,)))
    graph = one_node("QuantizeLinear", TensorType("float32", x.shape), kind, {})
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    for result in (host(graph, x), execute(graph, {"x": x})["y"]):
        assert result.tolist() == [low, high, low, high, low]


def test_accumulators_wrap_at_32_bits() -> None:
    x_type = TensorType("uint8", (1, 1), Quantization((1.0,), (0,)))
    y_type = TensorType("int32", (1, 1))
    weight = (np.array([[127]], np.int8), Quantization((1.0,), (0,)))
    graph = one_node("MatMul", x_type, y_type, {}, weight, np.array([2**31 - 1], np.int32))
    got = execute(graph, {"x": np.array([[1]], np.uint8)})["y"]
    assert got.tolist() == [[2**31 - 1 + 127 - 2**32]]


def test_a_missing_input_is_named(lenet5_path: Path) -> None:
    with pytest.raises(ModelError) as raised:
        execute(load(lenet5_path), {})
    assert str(raised.value) == "exact: input 'image' is missing; give every graph input"


def test_a_real_operator_takes_its_output_from_the_run() -> None:
    x_type = TensorType("float32", (3,))
    graph = one_node("Sqrt", x_type, x_type, {})
    x = np.array([1, 4, 9], np.float32)
    assert "y" not in execute(graph, {"x": x})
    assert execute(graph, {"x": x}, {"y": np.sqrt(x)})["y"].tolist() == [1, 2, 3]


@pytest.mark.parametrize("name", ["exact", "exact_arithmetic", "exact_layout", "exact_rules"])
def test_the_exact_executor_shares_no_arithmetic_with_the_product(name: str) -> None:
    text = (Path(__file__).parents[2] / "tilewright" / f"{name}.py").read_text()
    assert "numerics" not in text.split('"""', 2)[2]
    assert "runtime.host" not in text
