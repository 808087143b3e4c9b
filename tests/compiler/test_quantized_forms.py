"""What real operators between DequantizeLinear and QuantizeLinear become, and that it is right."""

from collections.abc import Callable, Mapping

import numpy as np
import onnxruntime
import pytest
from onnx import helper

from tilewright.compiler.ir.graph import Graph, Node
from tilewright.compiler.load import load
from tilewright.exact import execute
from tilewright.hw.errors import ModelError
from tilewright.runtime.tensor import Array, Quantization

RNG = np.random.default_rng(11)
SX, SY = np.float32(0.05), np.float32(0.0713)
SCALES = {
    "sx": np.array(SX),
    "sy": np.array(SY),
    "zx": np.array(-7, np.int8),
    "zy": np.array(4, np.int8),
    "lowest": np.array(-128, np.int8),
}
Nodes = list[object]


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def dq(x: str, y: str, scale: str = "sx", zero: str = "zx"):
    return helper.make_node("DequantizeLinear", [x, scale, zero], [y])


def q(x: str, y: str, scale: str = "sy", zero: str = "zy"):
    return helper.make_node("QuantizeLinear", [x, scale, zero], [y])


@pytest.fixture
def imported(model_file, run_on_host) -> Callable[..., Graph]:
    """Import a model; host kernels, exact arithmetic and onnxruntime must agree on its outputs."""

    def build(
        nodes: Nodes,
        inputs: Mapping[str, tuple[int, ...]],
        outputs: Mapping[str, tuple[int, ...]],
        weights: Mapping[str, Array] | None = None,
    ) -> Graph:
        kinds = [{n: ("int8", s) for n, s in table.items()} for table in (inputs, outputs)]
        path = model_file(nodes, *kinds, {**SCALES, **(weights or {})})
        graph = load(path)
        feeds = {n: RNG.integers(-128, 128, s).astype(np.int8) for n, s in inputs.items()}
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(path.read_bytes(), options)
        theirs = dict(zip(outputs, session.run(list(outputs), feeds), strict=True))
        exact, host = execute(graph, feeds), run_on_host(graph, feeds)
        for name in outputs:
            np.testing.assert_array_equal(host[name], exact[name])
            assert np.abs(exact[name].astype(int) - theirs[name]).max() <= 1
            assert (exact[name] != theirs[name]).mean() < 0.02
        return graph

    return build


def only(graph: Graph, op: str) -> Node:
    (node,) = [n for n in graph.nodes if n.op == op]
    return node


@pytest.mark.parametrize("op", ["Add", "Sub", "Mul"])
def test_an_elementwise_operator_with_relu_is_one_node(imported, op: str) -> None:
    nodes = [
        dq("a", "ar"),
        dq("b", "br"),
        helper.make_node(op, ["ar", "br"], ["s"]),
        helper.make_node("Relu", ["s"], ["r"]),
        q("r", "y"),
    ]
    graph = imported(nodes, {"a": (1, 3, 8, 8), "b": (1, 3, 1, 8)}, {"y": (1, 3, 8, 8)})
    assert ops(graph) == [op]
    assert dict(graph.nodes[0].attributes) == {"low": 4, "high": 127}


@pytest.mark.parametrize(("op", "factor"), [("Mul", 0.25), ("Div", 6.0), ("Div", 1.4142135)])
def test_a_number_folds_into_the_scale_of_what_it_multiplies(imported, op, factor) -> None:
    nodes = [
        dq("x", "xr"),
        helper.make_node(op, ["xr", "c"], ["m"]),
        helper.make_node("MaxPool", ["m"], ["r"], kernel_shape=[2, 2]),
        q("r", "y"),
    ]
    weights = {"c": np.array(factor, np.float32)}
    graph = imported(nodes, {"x": (1, 2, 6, 6)}, {"y": (1, 2, 5, 5)}, weights)
    assert ops(graph) == ["Reinterpret", "MaxPool", "Requantize"]
    expected = SX * np.float32(factor) if op == "Mul" else SX / np.float32(factor)
    scaled = graph.type(graph.nodes[0].outputs[0]).quantization
    assert scaled == Quantization((float(expected),), (-7,))


def test_a_negative_number_is_an_operand(model_file) -> None:
    nodes = [dq("x", "xr"), helper.make_node("Mul", ["xr", "c"], ["m"]), q("m", "y")]
    weights = {**SCALES, "c": np.array(-1, np.float32)}
    graph = load(model_file(nodes, {"x": ("int8", (2,))}, {"y": ("int8", (2,))}, weights))
    assert ops(graph) == ["Mul"]


def test_a_scale_that_changes_no_value_is_only_another_name(imported) -> None:
    near = np.nextafter(SX, np.float32(1))
    nodes = [dq("x", "xr"), q("xr", "y", "near", "zx")]
    graph = imported(nodes, {"x": (64,)}, {"y": (64,)}, {"near": np.array(near)})
    assert ops(graph) == ["Reinterpret"]


def test_the_mean_over_height_and_width_is_a_pool(imported) -> None:
    mean = helper.make_node("ReduceMean", ["xr"], ["r"], axes=[-1, -2], keepdims=0)
    graph = imported([dq("x", "xr"), mean, q("r", "y")], {"x": (2, 3, 4, 5)}, {"y": (2, 3)})
    assert ops(graph) == ["AveragePool", "Squeeze"] or ops(graph) == [
        "AveragePool",
        "Squeeze",
        "Requantize",
    ]


@pytest.mark.parametrize(
    ("op", "value", "extra", "folded"),
    [
        ("AveragePool", None, {}, True),
        ("AveragePool", None, {"pads": [1, 0, 0, 0], "count_include_pad": 1}, True),
        ("AveragePool", None, {"pads": [1, 0, 0, 0]}, False),
        ("AveragePool", 0.5, {}, False),
        ("MaxPool", None, {}, False),
        ("MaxPool", -6.4, {}, True),
    ],
)
def test_a_pad_moves_into_a_pool_that_pads_alike(imported, op, value, extra, folded) -> None:
    names = ["xr", "pads"] + (["value"] if value is not None else [])
    nodes = [
        dq("x", "xr", zero="lowest" if value == -6.4 else "zx"),
        helper.make_node("Pad", names, ["p"]),
        q("p", "ps", "sx", "lowest" if value == -6.4 else "zx"),
        dq("ps", "pr", zero="lowest" if value == -6.4 else "zx"),
        helper.make_node(op, ["pr"], ["r"], kernel_shape=[3, 3], strides=[2, 2], **extra),
        q("r", "y"),
    ]
    weights = {"pads": np.array([0, 0, 1, 0, 0, 0, 0, 2], np.int64)}
    if value is not None:
        real = value if value == 0.5 else -6.4 + 6.4
        weights["value"] = np.array(real, np.float32)
    height = 4 if "pads" in extra else 3
    graph = imported(nodes, {"x": (1, 2, 7, 8)}, {"y": (1, 2, height, 4)}, weights)
    assert ("Pad" in ops(graph)) != folded


def test_split_parts_and_gathered_channels_keep_their_integers(imported) -> None:
    nodes = [
        dq("x", "xr"),
        helper.make_node("Split", ["xr"], ["a", "b"], axis=1),
        q("a", "y", "sx", "zx"),
        helper.make_node("Gather", ["b", "index"], ["g"], axis=-1),
        q("g", "z"),
    ]
    weights = {"index": np.array([2, 0], np.int64)}
    graph = imported(nodes, {"x": (1, 6, 4)}, {"y": (1, 3, 4), "z": (1, 3, 2)}, weights)
    assert ops(graph)[0] == "Slice"
    assert all(graph.type(n.outputs[0]).dtype == "int8" for n in graph.nodes if n.op == "Slice")


def test_a_one_dimensional_convolution_has_height_one(imported) -> None:
    attributes = {"pads": [2, 1], "strides": [2], "dilations": [2], "group": 2}
    nodes = [
        dq("x", "xr"),
        dq("w", "wr", zero="z0"),
        helper.make_node("Conv", ["xr", "wr"], ["r"], **attributes),
        q("r", "y", "s2"),
        dq("y", "yr", "s2", "zy"),
        helper.make_node("MaxPool", ["yr"], ["m"], kernel_shape=[2]),
        q("m", "z", "s2"),
    ]
    weights = {
        "w": RNG.integers(-128, 128, (4, 2, 3)).astype(np.int8),
        "z0": np.array(0, np.int8),
        "s2": np.array(0.9, np.float32),
    }
    graph = imported(nodes, {"x": (1, 4, 11)}, {"z": (1, 4, 4)}, weights)
    assert ops(graph) == ["Unsqueeze", "Conv", "MaxPool", "Squeeze"]
    conv, pool = only(graph, "Conv").attributes, only(graph, "MaxPool").attributes
    assert (conv["kernel_shape"], conv["pads"]) == ((1, 3), (0, 2, 0, 1))
    assert (conv["strides"], conv["dilations"]) == ((1, 2), (1, 2))
    assert (pool["kernel_shape"], pool["pads"]) == ((1, 2), (0, 0, 0, 0))


def test_reshapes_in_a_row_are_one_and_cancel(model_file) -> None:
    nodes = [
        helper.make_node("Flatten", ["x"], ["f"]),
        helper.make_node("Reshape", ["f", "s4"], ["g"]),
        helper.make_node("Relu", ["g"], ["r"]),
        helper.make_node("Unsqueeze", ["r", "axes"], ["u"]),
        helper.make_node("Reshape", ["u", "s2"], ["y"]),
    ]
    weights = {
        "s4": np.array([-1, 3, 2, 2], np.int64),
        "axes": np.array([0], np.int64),
        "s2": np.array([-1, 12], np.int64),
    }
    inputs, outputs = {"x": ("int8", ("N", 3, 2, 2))}, {"y": ("int8", ("N", 12))}
    graph = load(model_file(nodes, inputs, outputs, weights))
    assert ops(graph) == ["Requantize", "Reshape"]
    assert graph.nodes[0].inputs == ("x",)
    assert graph.nodes[1].attributes["shape"] == (-1, 12)


def test_integer_parts_of_different_scales_are_refused(model_file) -> None:
    nodes = [
        dq("a", "ar"),
        dq("b", "br", "sy", "zy"),
        helper.make_node("Concat", ["a", "b"], ["y"], axis=0, name="join"),
    ]
    outputs = {"y": ("int8", (4,)), "ar": ("float32", (2,)), "br": ("float32", (2,))}
    path = model_file(nodes, {"a": ("int8", (2,)), "b": ("int8", (2,))}, outputs, SCALES)
    with pytest.raises(ModelError, match="'join': Concat: its parts are integers of different sc"):
        load(path)


def test_arithmetic_on_stored_integers_is_refused(model_file) -> None:
    nodes = [dq("a", "ar"), helper.make_node("Max", ["a", "a"], ["y"], name="raw")]
    outputs = {"y": ("int8", (2,)), "ar": ("float32", (2,))}
    path = model_file(nodes, {"a": ("int8", (2,))}, outputs, SCALES)
    with pytest.raises(ModelError, match="node 'raw': Max works on the stored integers of int8"):
        load(path)


def test_constant_weights_of_integer_products_are_int8(model_file) -> None:
    node = helper.make_node("MatMulInteger", ["x", "w", "zx", "zw"], ["y"])
    weights = {"w": np.array([[0], [200]], np.uint8), "zw": np.array(130, np.uint8), **SCALES}
    path = model_file([node], {"x": ("int8", (1, 2))}, {"y": ("int32", (1, 1))}, weights)
    graph = load(path)
    weight = graph.nodes[0].inputs[1]
    assert graph.constants[weight].tolist() == [[-128], [72]]
    assert graph.type(weight).quantization == Quantization((1.0,), (2,))
    got = execute(graph, {"x": np.array([[3, 1]], np.int8)})["y"]
    assert got.tolist() == [[(3 + 7) * -130 + (1 + 7) * 70]]


def test_a_model_may_use_the_names_that_passes_would_invent(imported) -> None:
    nodes = [
        dq("x", "xr"),
        helper.make_node("Reshape", ["xr", "shape"], ["r"], name="r"),
        helper.make_node("Conv", ["r", "w"], ["c"], name="r.DequantizeLinear"),
        q("c", "r.stored"),
        dq("r.stored", "cr", "sy", "zy"),
        helper.make_node("Div", ["cr", "two"], ["d"], name="d"),
        helper.make_node("Flatten", ["d"], ["c.1xW"], name="d.Reinterpret"),
        q("c.1xW", "y"),
    ]
    weights = {
        "shape": np.array([1, 2, 6], np.int64),
        "two": np.array(2, np.float32),
        "w8": RNG.integers(-128, 128, (3, 2, 3)).astype(np.int8),
        "z0": np.array(0, np.int8),
    }
    nodes.insert(0, dq("w8", "w", zero="z0"))
    graph = imported(nodes, {"x": (12,)}, {"y": (1, 12)}, weights)
    assert ops(graph) == [*("Reshape", "Conv", "Squeeze", "Reinterpret", "Flatten", "Requantize")]
    assert len({node.name for node in graph.nodes}) == len(graph.nodes)


@pytest.mark.parametrize("relu", [[], ["Relu"]])
def test_a_product_of_two_activations_is_one_node(imported, relu: list[str]) -> None:
    nodes = [
        dq("a", "ar"),
        helper.make_node("Transpose", ["ar"], ["t"], perm=[0, 2, 1]),
        dq("b", "br", "sy", "zy"),
        helper.make_node("MatMul", ["t", "br"], ["p"]),
        *[helper.make_node(op, ["p"], ["p.relu"]) for op in relu],
        q("p.relu" if relu else "p", "y", "wide"),
    ]
    weights = {"wide": np.array(0.31, np.float32)}
    graph = imported(nodes, {"a": (3, 5, 4), "b": (1, 5, 6)}, {"y": (3, 4, 6)}, weights)
    assert ops(graph) == ["Transpose", "MatMul"]
    assert graph.nodes[1].attributes["low"] == (4 if relu else -128)


@pytest.mark.parametrize("include", [0, 1])
def test_what_ceil_mode_adds_is_never_counted(imported, include: int) -> None:
    pool = helper.make_node(
        "AveragePool",
        ["xr"],
        ["r"],
        kernel_shape=[3, 2],
        strides=[2, 3],
        pads=[1, 0, 0, 1],
        ceil_mode=1,
        count_include_pad=include,
    )
    graph = imported([dq("x", "xr"), pool, q("r", "y")], {"x": (1, 2, 7, 7)}, {"y": (1, 2, 4, 3)})
    assert ops(graph) == (["Pad", "AveragePool"] if include else ["AveragePool"])
