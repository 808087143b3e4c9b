"""Each graph pass on the smallest graph that shows it."""

import numpy as np
import pytest
from onnx import helper

from tilewright.compiler.frontend.load import load_onnx
from tilewright.compiler.ir import dims
from tilewright.compiler.ir.graph import Graph
from tilewright.compiler.load import load
from tilewright.compiler.passes.bind_shapes import bind_shapes
from tilewright.compiler.passes.eliminate_dead import eliminate_dead
from tilewright.hw.errors import ModelError
from tilewright.runtime.tensor import Array

S = np.array(0.05, np.float32)
QUANT = {"s": S, "z": np.array(7, np.int8), "sw": S, "z0": np.array(0, np.int8)}


def ops(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes]


def qlinear_conv(x: str, y: str, **attributes: list[int]):
    return helper.make_node(
        "QLinearConv", [x, "s", "z", "w", "sw", "z0", "s", "z"], [y], **attributes
    )


def conv_model(model_file, nodes, shape, *, weight: Array, out) -> Graph:
    inputs, outputs = {"x": ("int8", shape)}, {"y": ("int8", out)}
    return load(model_file(nodes, inputs, outputs, {"w": weight, **QUANT, "pad": PADS}))


PADS = np.array([0, 0, 1, 2, 0, 0, 0, 1], np.int64)
WEIGHT = np.arange(36, dtype=np.int8).reshape(2, 2, 3, 3)


@pytest.mark.parametrize(("value", "folded"), [("z", True), ("z0", False)])
def test_padding_with_the_zero_point_moves_into_the_convolution(
    model_file, value: str, folded: bool
) -> None:
    nodes = [helper.make_node("Pad", ["x", "pad", value], ["p"]), qlinear_conv("p", "y")]
    graph = conv_model(model_file, nodes, (1, 2, 4, 4), weight=WEIGHT, out=(1, 2, 3, 5))
    assert ops(graph) == (["Conv"] if folded else ["Pad", "Conv"])
    assert graph.nodes[-1].attributes["pads"] == ((1, 2, 0, 1) if folded else (0, 0, 0, 0))


def test_a_clip_of_integers_tightens_the_convolution_before_it(model_file) -> None:
    nodes = [qlinear_conv("x", "c"), helper.make_node("Clip", ["c", "z0", "z"], ["y"])]
    graph = conv_model(model_file, nodes, (1, 2, 4, 4), weight=WEIGHT, out=(1, 2, 2, 2))
    assert ops(graph) == ["Conv"]
    assert (graph.nodes[0].attributes["low"], graph.nodes[0].attributes["high"]) == (0, 7)


def test_a_clip_of_a_tensor_with_other_readers_stays(model_file) -> None:
    nodes = [
        qlinear_conv("x", "c"),
        helper.make_node("Clip", ["c", "z0"], ["y"]),
        helper.make_node("Flatten", ["c"], ["f"]),
    ]
    inputs = {"x": ("int8", (1, 2, 4, 4))}
    outputs = {"y": ("int8", (1, 2, 2, 2)), "f": ("int8", (1, 8))}
    graph = load(model_file(nodes, inputs, outputs, {"w": WEIGHT, **QUANT}))
    assert ops(graph) == ["Conv", "Requantize", "Flatten"]


@pytest.mark.parametrize("flatten", ["Flatten", "Reshape"])
def test_flatten_into_a_product_becomes_a_convolution(
    model_file, run_on_host, flatten: str
) -> None:
    rng = np.random.default_rng(1)
    w = rng.integers(-9, 9, (2 * 3 * 2, 5)).astype(np.int8)
    shape = {"Flatten": [], "Reshape": ["shape"]}[flatten]
    names = ["f", "s", "z", "w", "sw", "z0", "s", "z"]
    nodes = [
        helper.make_node(flatten, ["x", *shape], ["f"]),
        helper.make_node("QLinearMatMul", names, ["y"]),
    ]
    weights = {"w": w, **QUANT, "shape": np.array([0, -1], np.int64)}
    inputs, outputs = {"x": ("int8", ("N", 2, 3, 2))}, {"y": ("int8", ("N", 5))}
    graph = load(model_file(nodes, inputs, outputs, weights))
    assert ops(graph) == ["Conv", "Flatten"]
    x = rng.integers(-128, 128, (3, 2, 3, 2)).astype(np.int8)
    real = (x.reshape(3, 12).astype(np.int64) - 7) @ w.astype(np.int64) * float(S)
    expected = np.clip(np.rint(real) + 7, -128, 127)
    np.testing.assert_array_equal(run_on_host(graph, {"x": x})["y"], expected)


def test_flatten_of_single_pixels_stays_a_product(model_file) -> None:
    names = ["f", "s", "z", "w", "sw", "z0", "s", "z"]
    nodes = [
        helper.make_node("Flatten", ["x"], ["f"]),
        helper.make_node("QLinearMatMul", names, ["y"]),
    ]
    weights = {"w": np.ones((4, 5), np.int8), **QUANT}
    inputs, outputs = {"x": ("int8", ("N", 4, 1, 1))}, {"y": ("int8", ("N", 5))}
    assert ops(load(model_file(nodes, inputs, outputs, weights))) == ["Flatten", "MatMul"]


def test_binding_a_symbol_gives_every_shape(lenet5_path) -> None:
    graph = bind_shapes(load(lenet5_path), {"N": 3})
    assert graph.type("logits").static_shape == (3, 10)
    assert all(
        isinstance(dim, int) for node in graph.nodes for dim in graph.type(node.outputs[0]).shape
    )


def test_binding_what_the_model_has_not_is_refused(lenet5_path) -> None:
    graph = load(lenet5_path)
    with pytest.raises(ModelError) as raised:
        bind_shapes(graph, {"batch": 3})
    name = graph.name
    assert str(raised.value) == f"shape: {name} has no dimension 'batch'; it has: N"
    with pytest.raises(ModelError, match=r"^shape: N=0; a dimension is at least 1$"):
        bind_shapes(graph, {"N": 0})


def test_dead_nodes_take_their_constants_along(model_file) -> None:
    nodes = [
        helper.make_node("Add", ["x", "a"], ["y"]),
        helper.make_node("Mul", ["x", "b"], ["unused"]),
    ]
    weights = {"a": np.ones(2, np.float32), "b": np.ones(2, np.float32)}
    path = model_file(nodes, {"x": ("float32", (2,))}, {"y": ("float32", (2,))}, weights)
    graph = eliminate_dead(load_onnx(path))
    assert ops(graph) == ["Add"]
    assert set(graph.constants) == {"a"}
    assert set(graph.values) == {"x", "a", "y"}


@pytest.mark.parametrize(
    ("shape", "target", "expected"),
    [
        (("N", 4, 2), (0, -1), ("N", 8)),
        (("N", 4, 2), (-1, 8), ("N", 8)),
        (("N", 4), (-1,), ("4*N",)),
        ((2, 3), (3, 2), (3, 2)),
    ],
)
def test_reshape_keeps_symbols(shape, target, expected) -> None:
    assert dims.reshape(shape, target, allow_zero=False) == expected


def test_reshape_to_another_size_is_refused() -> None:
    with pytest.raises(ModelError, match=r"^shape: \[2, 3\] has 6 elements, \[4, 2\] does not$"):
        dims.reshape((2, 3), (4, 2), allow_zero=False)
