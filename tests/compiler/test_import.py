"""What ONNX models become: one canonical form, whichever way they say it."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

from tilewright.compiler.ir.graph import Graph, Node
from tilewright.compiler.load import load
from tilewright.hw.errors import ModelError
from tilewright.runtime.tensor import Array, Quantization

RNG = np.random.default_rng(5)
SX, SW, SY = np.float32(0.05), np.float32(0.02), np.float32(0.1)


def only(graph: Graph, op: str) -> Node:
    (node,) = [n for n in graph.nodes if n.op == op]
    return node


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def scalars(**values: float | int) -> dict[str, Array]:
    """Scales are s…, zero points z… (int8) or u… (uint8)."""
    kinds = {"s": np.float32, "z": np.int8, "u": np.uint8}
    return {name: np.array(value, kinds[name[0]]) for name, value in values.items()}


def dq(x: str, y: str, scale: str, zero: str = "z0", **attributes: int):
    return helper.make_node("DequantizeLinear", [x, scale, zero], [y], name=f"dq_{x}", **attributes)


def q(x: str, y: str, scale: str, zero: str):
    return helper.make_node("QuantizeLinear", [x, scale, zero], [y], name=f"q_{y}")


def qdq_dense(model_file, middle, weights: dict[str, Array], *, out: int = 3) -> Graph:
    """x int8[2, 4] → DQ → `middle` (reads xr, wr; writes r) → Q → y, scales SX, SW, SY."""
    nodes = [dq("x", "xr", "sx", "zx"), dq("w", "wr", "sw"), *middle, q("r", "y", "sy", "zy")]
    given = {**scalars(sx=SX, zx=3, sw=SW, z0=0, sy=SY, zy=-5), **weights}
    inputs, outputs = {"x": ("int8", (2, 4))}, {"y": ("int8", (2, out))}
    return load(model_file(nodes, inputs, outputs, given))


def test_qdq_and_qlinear_convolutions_import_to_the_same_node(model_file) -> None:
    w = RNG.integers(-128, 128, (5, 3, 3, 3)).astype(np.int8)
    b = RNG.integers(-999, 999, 5).astype(np.int32)
    sw = np.linspace(0.01, 0.03, 5).astype(np.float32)
    common = {"w": w, "b": b, "sw": sw, "zw": np.zeros(5, np.int8), "sb": SX * sw}
    common |= {"zb": np.zeros(5, np.int32), **scalars(sx=SX, zx=3, sy=SY, zy=-5)}
    inputs, outputs = {"x": ("int8", ("N", 3, 8, 8))}, {"y": ("int8", ("N", 5, 8, 8))}
    attributes = {"pads": [1, 1, 1, 1]}
    qlinear = helper.make_node(
        "QLinearConv", ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy", "b"], ["y"], **attributes
    )
    qdq = [
        dq("x", "xr", "sx", "zx"),
        dq("w", "wr", "sw", "zw", axis=0),
        dq("b", "br", "sb", "zb", axis=0),
        helper.make_node("Conv", ["xr", "wr", "br"], ["r"], **attributes),
        q("r", "y", "sy", "zy"),
    ]
    graphs = [
        load(model_file(nodes, inputs, outputs, common, name=f"{i}.onnx"))
        for i, nodes in enumerate([[qlinear], qdq])
    ]
    for graph in graphs:
        node = only(graph, "Conv")
        assert ops(graph) == ["Conv"]
        assert node.attributes == only(graphs[0], "Conv").attributes
        assert graph.type("x").quantization == Quantization((float(SX),), (3,))
        assert graph.type("y").quantization == Quantization((float(SY),), (-5,))
        np.testing.assert_array_equal(graph.constants[node.inputs[1]], w)
        np.testing.assert_array_equal(graph.constants[node.inputs[2]], b)
        assert graph.type(node.inputs[1]).quantization == Quantization(
            tuple(map(float, sw)), (0,) * 5, 0
        )


def test_relu_and_clip_become_the_clamp_in_stored_units(model_file) -> None:
    middle = [
        helper.make_node("MatMul", ["xr", "wr"], ["m"]),
        helper.make_node("Relu", ["m"], ["a"]),
        helper.make_node("Clip", ["a", "", "six"], ["r"]),
    ]
    weights = {"w": np.ones((4, 3), np.int8), "six": np.array(6, np.float32)}
    node = only(qdq_dense(model_file, middle, weights), "MatMul")
    assert (node.attributes["low"], node.attributes["high"]) == (-5, -5 + 60)
    assert node.origin == ("dq_x", "dq_w", "MatMul_2", "Relu_3", "Clip_4", "q_y")
    assert node.name == "MatMul_2"


def test_gemm_folds_transposition_alpha_and_beta(model_file) -> None:
    w = RNG.integers(-128, 128, (3, 4)).astype(np.int8)
    bias = np.array([0.5, -0.252, 1.0], np.float32)
    gemm = helper.make_node("Gemm", ["xr", "wr", "b"], ["r"], alpha=2.0, beta=0.5, transB=1)
    graph = qdq_dense(model_file, [gemm], {"w": w, "b": bias})
    node = only(graph, "MatMul")
    np.testing.assert_array_equal(graph.constants[node.inputs[1]], w.T)
    quantization = graph.type(node.inputs[1]).quantization
    assert quantization == Quantization((float(np.float32(2) * SW),), (0,))
    unit = float(SX) * float(SW) * 2
    np.testing.assert_array_equal(graph.constants[node.inputs[2]], np.rint(bias / 2 / unit))


def test_a_negative_alpha_turns_the_signs_of_the_weights(model_file, run_on_host) -> None:
    w, x = np.array([[-128, 3, 127]] * 4, np.int8), np.array([[4, 3, 2, 1]] * 2, np.int8)
    gemm = helper.make_node("Gemm", ["xr", "wr"], ["r"], alpha=-1.0)
    y = run_on_host(qdq_dense(model_file, [gemm], {"w": w}), {"x": x})["y"]
    real = -(x.astype(float) - 3) @ w * (0.05 * 0.02 / 0.1)
    np.testing.assert_array_equal(y, np.clip(np.rint(real) - 5, -128, 127))


@pytest.mark.parametrize("middle", [[], ["Relu"]])
@pytest.mark.parametrize("added", [False, True])
def test_a_bias_between_units_is_added_to_real_values(
    model_file, run_on_host, middle: list[str], *, added: bool
) -> None:
    weights = {"w": np.eye(4, 3, dtype=np.int8), "b": np.array([0.1003, -0.2, 0.3498], np.float32)}
    weights |= scalars(sy=0.0005, zy=0)
    nodes = [helper.make_node("Gemm", ["xr", "wr", *([] if added else ["b"])], ["g"])]
    nodes += [helper.make_node("Add", ["g", "b"], ["a"])] if added else []
    last = "a" if added else "g"
    nodes.append(helper.make_node("Relu" if middle else "Identity", [last], ["r"]))
    graph = qdq_dense(model_file, nodes, weights)
    x = np.array([[0, 3, 6, 9], [3, 4, 5, 6]], np.int8)
    real = (x[:, :3].astype(float) - 3) * float(SX) * float(SW) + weights["b"].astype(float)
    real = np.maximum(real, 0) if middle else real
    y = run_on_host(graph, {"x": x})["y"]
    np.testing.assert_array_equal(y, np.clip(np.rint(real / 0.0005), -128, 127))
    assert "Add" in ops(graph)


def test_alpha_of_zero_is_refused(model_file) -> None:
    gemm = helper.make_node("Gemm", ["xr", "wr"], ["r"], alpha=0.0, name="g")
    with pytest.raises(ModelError, match="node 'g': Gemm: alpha=0 is not supported"):
        qdq_dense(model_file, [gemm], {"w": np.ones((4, 3), np.int8)})


def test_a_clip_of_min_above_max_gives_max(model_file) -> None:
    middle = [
        helper.make_node("MatMul", ["xr", "wr"], ["m"]),
        helper.make_node("Clip", ["m", "two", "one"], ["r"]),
    ]
    bounds = {"two": np.array(2, np.float32), "one": np.array(1, np.float32)}
    node = only(qdq_dense(model_file, middle, {"w": np.ones((4, 3), np.int8), **bounds}), "MatMul")
    assert (node.attributes["low"], node.attributes["high"]) == (5, 5)


@pytest.mark.parametrize("shape", [(3,), (1, 3), (1,), ()])
def test_an_add_of_a_constant_after_matmul_is_its_bias(model_file, shape: tuple[int, ...]) -> None:
    bias = np.full(shape, 0.3, np.float32)
    middle = [
        helper.make_node("MatMul", ["xr", "wr"], ["m"]),
        helper.make_node("Add", ["b", "m"], ["r"]),
    ]
    graph = qdq_dense(model_file, middle, {"w": np.ones((4, 3), np.int8), "b": bias})
    node = only(graph, "MatMul")
    assert ops(graph) == ["MatMul"]
    assert graph.constants[node.inputs[2]].tolist() == [300, 300, 300]


def test_an_add_along_the_width_is_no_bias(model_file) -> None:
    nodes = [
        dq("x", "xr", "sx"),
        dq("w", "wr", "sw"),
        helper.make_node("Conv", ["xr", "wr"], ["m"]),
        helper.make_node("Add", ["m", "b"], ["r"]),
        q("r", "y", "sy", "z0"),
    ]
    weights = {"w": np.ones((3, 2, 1, 1), np.int8), "b": np.array([1, 2, 3], np.float32)}
    weights |= scalars(sx=SX, sw=SW, sy=SY, z0=0)
    shape = (1, 3, 3, 3)
    path = model_file(nodes, {"x": ("int8", (1, 2, 3, 3))}, {"y": ("int8", shape)}, weights)
    graph = load(path)
    assert ops(graph) == ["Conv", "DequantizeLinear", "Add", "QuantizeLinear"]
    assert graph.type(only(graph, "Conv").outputs[0]).dtype == "int32"


def test_uint8_weights_become_int8(model_file) -> None:
    w = RNG.integers(0, 256, (4, 3)).astype(np.uint8)
    nodes = [
        helper.make_node("QLinearMatMul", ["x", "sx", "zx", "w", "sw", "uw", "sy", "zy"], ["y"])
    ]
    weights = {"w": w, **scalars(sx=SX, zx=3, sw=SW, uw=130, sy=SY, zy=0)}
    path = model_file(nodes, {"x": ("int8", (2, 4))}, {"y": ("int8", (2, 3))}, weights)
    graph = load(path)
    node = only(graph, "MatMul")
    np.testing.assert_array_equal(graph.constants[node.inputs[1]], w.astype(int) - 128)
    assert graph.type(node.inputs[1]).quantization == Quantization((float(SW),), (2,))


def test_a_dequantize_with_many_readers_is_read_by_all(model_file) -> None:
    middle = [
        helper.make_node("MatMul", ["xr", "wr"], ["r"]),
        helper.make_node("MatMul", ["xr", "vr"], ["t"]),
        dq("v", "vr", "sw"),
        q("t", "other", "sy", "zy"),
    ]
    middle = [middle[2], middle[0], middle[1], middle[3]]
    weights = {"w": np.ones((4, 3), np.int8), "v": np.ones((4, 5), np.int8)}
    nodes = [dq("x", "xr", "sx", "zx"), dq("w", "wr", "sw"), *middle, q("r", "y", "sy", "zy")]
    weights |= scalars(sx=SX, zx=3, sw=SW, z0=0, sy=SY, zy=-5)
    outputs = {"y": ("int8", (2, 3)), "other": ("int8", (2, 5)), "xr": ("float32", (2, 4))}
    graph = load(model_file(nodes, {"x": ("int8", (2, 4))}, outputs, weights))
    assert sorted(ops(graph)) == ["DequantizeLinear", "MatMul", "MatMul"]
    assert all(n.inputs[0] == "x" for n in graph.nodes)
    assert graph.output_names == ("y", "other", "xr")


def test_an_operator_that_ends_in_floats_keeps_its_accumulators(model_file) -> None:
    nodes = [
        dq("x", "xr", "sx", "zx"),
        dq("w", "wr", "sw"),
        helper.make_node("MatMul", ["xr", "wr"], ["y"], name="last"),
    ]
    weights = {"w": np.ones((4, 3), np.int8), **scalars(sx=SX, zx=3, sw=SW, z0=0)}
    path = model_file(nodes, {"x": ("int8", (2, 4))}, {"y": ("float32", (2, 3))}, weights)
    graph = load(path)
    assert ops(graph) == ["MatMul", "DequantizeLinear"]
    kind = graph.type(graph.nodes[0].outputs[0])
    assert kind.dtype == "int32"
    assert kind.quantization == Quantization((float(SX * SW),), (0,))


def test_max_pool_to_another_scale_is_followed_by_a_requantize(model_file) -> None:
    nodes = [
        dq("x", "xr", "sx"),
        helper.make_node("MaxPool", ["xr"], ["r"], kernel_shape=[2, 2]),
        q("r", "y", "sy", "z0"),
    ]
    weights = scalars(sx=SX, sy=SY, z0=0)
    shape = (1, 2, 3, 3)
    path = model_file(nodes, {"x": ("int8", (1, 2, 4, 4))}, {"y": ("int8", shape)}, weights)
    graph = load(path)
    assert ops(graph) == ["MaxPool", "Requantize"]
    assert graph.type(graph.nodes[0].outputs[0]).quantization == graph.type("x").quantization


def test_a_quantize_of_a_dequantize_is_a_requantize(model_file) -> None:
    nodes = [dq("x", "xr", "sx"), q("xr", "y", "sy", "u9")]
    weights = scalars(sx=SX, sy=SY, z0=0, u9=9)
    path = model_file(nodes, {"x": ("int8", (2, 4))}, {"y": ("uint8", (2, 4))}, weights)
    graph = load(path)
    assert ops(graph) == ["Requantize"]
    assert graph.type("y").dtype == "uint8"


def test_one_tensor_dequantized_in_two_ways_is_reinterpreted(model_file) -> None:
    nodes = [dq("x", "a", "sx"), helper.make_node("DequantizeLinear", ["x", "sy", "z0"], ["b"])]
    weights = scalars(sx=SX, sy=SY, z0=0)
    outputs = {"a": ("float32", (2,)), "b": ("float32", (2,))}
    graph = load(model_file(nodes, {"x": ("int8", (2,))}, outputs, weights))
    assert ops(graph) == ["DequantizeLinear", "Reinterpret", "DequantizeLinear"]


@pytest.mark.parametrize(
    ("attributes", "pads"),
    [
        ({"auto_pad": "SAME_UPPER", "strides": [2, 2]}, (0, 0, 1, 1)),
        ({"auto_pad": "SAME_LOWER", "strides": [2, 2]}, (1, 1, 0, 0)),
        ({"auto_pad": "VALID"}, (0, 0, 0, 0)),
        ({"auto_pad": "NOTSET", "pads": [1, 0, 2, 1]}, (1, 0, 2, 1)),
        ({"strides": [2, 2], "ceil_mode": 1}, (0, 0, 1, 1)),
        ({"strides": [2, 2], "ceil_mode": 1, "pads": [1, 1, 1, 1]}, (1, 1, 2, 2)),
    ],
)
def test_window_padding_is_resolved(model_file, attributes, pads: tuple[int, ...]) -> None:
    node = helper.make_node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], **attributes)
    inputs, outputs = {"x": ("int8", ("N", 2, 6, 6))}, {"y": ("int8", ("N", 2, "h", "w"))}
    graph = load(model_file([node], inputs, outputs, {}))
    assert only(graph, "MaxPool").attributes["pads"] == pads


def test_absent_attributes_get_onnx_defaults(model_file) -> None:
    node = helper.make_node("ConvInteger", ["x", "w"], ["y"])
    weights = {"w": np.ones((5, 3, 2, 3), np.int8)}
    path = model_file(
        [node], {"x": ("int8", (1, 3, 5, 6))}, {"y": ("int32", (1, 5, 4, 4))}, weights
    )
    conv = only(load(path), "Conv")
    assert dict(conv.attributes) == {
        "kernel_shape": (2, 3),
        "strides": (1, 1),
        "dilations": (1, 1),
        "pads": (0, 0, 0, 0),
        "group": 1,
    }


def test_empty_and_repeated_node_names_become_unique(model_file) -> None:
    names = ["", "same", "same", "", "a/b:0"]
    nodes = [
        helper.make_node("Add", [f"t{i}", f"t{i}"], [f"t{i + 1}"], name=name)
        for i, name in enumerate(names)
    ]
    path = model_file(nodes, {"t0": ("float32", (2,))}, {"t5": ("float32", (2,))}, {})
    graph = load(path)
    assert [n.name for n in graph.nodes] == ["Add_0", "same", "same.1", "Add_3", "a/b:0"]
    assert dict(graph.origins) == dict.fromkeys(
        ["Add_0", "same", "same.1", "Add_3", "a/b:0"], "Add"
    )


def test_constants_are_folded(model_file) -> None:
    nodes = [
        helper.make_node("Constant", [], ["c"], value_floats=[1.0, 2.0]),
        helper.make_node("Mul", ["c", "c"], ["d"]),
        helper.make_node("Add", ["x", "d"], ["y"]),
    ]
    graph = load(model_file(nodes, {"x": ("float32", (2,))}, {"y": ("float32", (2,))}, {}))
    assert ops(graph) == ["Add"]
    assert graph.constants["d"].tolist() == [1, 4]


def test_lenet5_is_three_convolutions_two_pools_and_two_products(lenet5_path: Path) -> None:
    graph = load(lenet5_path)
    assert ops(graph) == [
        *("QuantizeLinear", "Conv", "AveragePool", "Conv", "AveragePool", "Conv", "Flatten"),
        *("MatMul", "MatMul", "DequantizeLinear"),
    ]
    assert graph.type("image").shape == ("N", 1, 28, 28)
    assert graph.model == lenet5_path.read_bytes()
    assert set(graph.origins) >= {name for node in graph.nodes for name in node.origin}


def test_qgemm_bias_has_the_scale_of_its_products(model_file) -> None:
    bias = np.array([1, -2, 3], np.int32)
    names = ["x", "sx", "zx", "w", "sw", "zx", "b", "sy", "zy"]
    node = helper.make_node("QGemm", names, ["y"], domain="com.microsoft", transB=1, alpha=0.5)
    weights = {"w": np.ones((3, 4), np.int8), "b": bias, **scalars(sx=SX, zx=0, sw=SW, sy=SY, zy=1)}
    path = model_file([node], {"x": ("int8", (2, 4))}, {"y": ("int8", (2, 3))}, weights)
    graph = load(path)
    np.testing.assert_array_equal(graph.constants[only(graph, "MatMul").inputs[2]], bias)


def test_a_cast_to_an_element_type_without_a_name_here_is_refused(model_file) -> None:
    node = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.BFLOAT16, name="cast")
    path = model_file([node], {"x": ("float32", (2,))}, {"y": ("float32", (2,))}, {})
    with pytest.raises(Exception, match="'cast': Cast: to=16: this element type is not supported"):
        load(path)
