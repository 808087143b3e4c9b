"""What --check finds, and what it lets pass."""

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tilewright.check import batched, check, check_onnxruntime
from tilewright.compiler.ir.graph import Graph
from tilewright.compiler.load import load
from tilewright.exact import execute
from tilewright.hw.errors import ModelError
from tilewright.runtime.host import KERNELS

INTEGER = "relu_18_QuantizeLinear_Output"


@pytest.fixture(scope="module")
def graph(lenet5_path: Path) -> Graph:
    return load(lenet5_path)


@pytest.fixture(scope="module")
def feeds() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {"image": rng.random((16, 1, 28, 28), dtype=np.float32)}


def test_exact_outputs_pass_both_references(graph: Graph, feeds) -> None:
    result = check(graph, [feeds], [execute(graph, feeds)], layers=True)
    assert result.passed
    assert result.exact.compared == 16 * 9008
    assert result.exact.mismatched == 0
    assert result.onnxruntime.compared == 16 * 9008
    assert result.onnxruntime.mismatched == result.onnxruntime.ties
    assert result.onnxruntime.failed == ()
    assert result.onnxruntime.max_abs_error <= 1


def test_one_wrong_value_is_found_and_located(graph: Graph, feeds) -> None:
    run = execute(graph, feeds)
    run[INTEGER] = run[INTEGER].copy()
    run[INTEGER][3, 7] += 1
    result = check(graph, [feeds], [run], layers=True)
    assert not result.passed
    assert result.exact.mismatched == 1
    expected = run[INTEGER][3, 7] - 1
    assert str(result.exact.first) == (
        f"{INTEGER}[3, 7] of sample 0: got {run[INTEGER][3, 7]}, expected {expected}"
    )


def test_outputs_alone_are_compared_without_layers(graph: Graph, feeds) -> None:
    run = execute(graph, feeds)
    result = check(graph, [feeds], [{"logits": run["logits"]}])
    assert result.passed
    assert result.exact.compared == 160


def test_a_wrong_output_fails_even_without_layers(graph: Graph, feeds) -> None:
    logits = execute(graph, feeds)["logits"].copy()
    logits[0, 0] += 1
    result = check(graph, [feeds], [{"logits": logits}])
    assert not result.exact.passed
    assert result.onnxruntime.end_to_end_max_abs_error >= 1 - 0.4


def test_a_wrong_graph_fails_against_onnxruntime(graph: Graph, feeds) -> None:
    conv = next(node for node in graph.nodes if node.op == "Conv")
    bias = conv.inputs[2]
    broken = replace(graph, constants={**graph.constants, bias: graph.constants[bias] + 2000})
    result = check_onnxruntime(broken, [feeds], [execute(broken, feeds)], layers=True)
    assert result.failed == (conv.outputs[0],)


def test_a_missing_output_is_named(graph: Graph, feeds) -> None:
    with pytest.raises(ModelError, match=r"^check: output 'logits' is missing$"):
        check(graph, [feeds], [{}])


def test_a_wrong_shape_is_named(graph: Graph, feeds) -> None:
    logits = execute(graph, feeds)["logits"][:, :9]
    with pytest.raises(ModelError) as raised:
        check(graph, [feeds], [{"logits": logits}])
    assert str(raised.value) == "check: logits is float32[16, 9], expected float32[16, 10]"


def test_without_onnxruntime_it_says_so(graph: Graph, feeds, monkeypatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    result = check(graph, [feeds], [execute(graph, feeds)])
    assert result.passed
    assert result.onnxruntime.unavailable == "onnxruntime is not installed"
    assert result.onnxruntime.compared == 0


def test_batched_joins_samples_along_the_first_axis() -> None:
    one, two = {"x": np.zeros((1, 3))}, {"x": np.ones((1, 3))}
    assert batched([one, two])[0]["x"].tolist() == [[0, 0, 0], [1, 1, 1]]
    assert batched([]) == []


def softmax_graph(tmp_path: Path) -> Graph:
    nodes = [
        helper.make_node("DequantizeLinear", ["x", "s", "z"], ["r"]),
        helper.make_node("Softmax", ["r"], ["p"], name="softmax"),
        helper.make_node("QuantizeLinear", ["p", "t", "z"], ["y"]),
    ]
    weights = {"s": np.float32(0.1), "t": np.float32(1 / 256), "z": np.int8(0)}
    values = [helper.make_tensor_value_info(n, TensorProto.INT8, [4, 9]) for n in "xy"]
    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], tensors)
    path = tmp_path / "softmax.onnx"
    opsets = [helper.make_opsetid("", 13)]
    path.write_bytes(
        helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()
    )
    return load(path)


@pytest.mark.parametrize("shift", [0, 2])
def test_an_operator_without_an_exact_rule_is_named_and_compared_with_onnxruntime(
    tmp_path: Path, monkeypatch, shift: int
) -> None:
    graph = softmax_graph(tmp_path)
    right = KERNELS["Softmax"]
    monkeypatch.setitem(KERNELS, "Softmax", lambda *given: [right(*given)[0] + np.int8(shift)])
    feeds = {"x": np.random.default_rng(0).integers(-128, 128, (4, 9)).astype(np.int8)}
    kinds = [graph.type("x")], [graph.type("y")]
    (y,) = KERNELS["Softmax"]([feeds["x"]], graph.nodes[0].attributes, *kinds)
    result = check(graph, [feeds], [{"y": y}])
    assert result.exact.assumed == ("y",)
    assert result.exact.compared == 0
    assert result.onnxruntime.failed == (("y",) if shift else ())


def test_what_onnxruntime_cannot_load_is_unavailable_for_its_reason(tmp_path: Path) -> None:
    graph = softmax_graph(tmp_path)
    broken = replace(graph, model=graph.model.replace(b"Softmax", b"Softmix"))
    x = np.zeros((4, 9), np.int8)
    result = check_onnxruntime(broken, [{"x": x}], [{"y": x}])
    assert result.unavailable.startswith("onnxruntime cannot load the model: ")
    assert "\n" not in result.unavailable


def test_an_output_that_is_a_constant_is_compared(tmp_path: Path) -> None:
    node = helper.make_node("Identity", ["c"], ["y"])
    value = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])
    constant = numpy_helper.from_array(np.arange(3, dtype=np.float32), "c")
    model = helper.make_model(
        helper.make_graph([node], "g", [], [value], [constant]),
        opset_imports=[helper.make_opsetid("", 13)],
        ir_version=8,
    )
    path = tmp_path / "constant.onnx"
    path.write_bytes(model.SerializeToString())
    result = check_onnxruntime(load(path), [{}], [{}])
    assert result.passed
    assert result.end_to_end_max_abs_error == 0


def chain_of_1d(tmp_path: Path) -> Graph:
    """Two 1-D convolutions, each with every other result on a rounding tie."""
    scales = {"s": np.float32(0.1), "h": np.float32(0.5), "t": np.float32(0.1), "z": np.int8(0)}
    w = np.ones((2, 2, 1), np.int8)
    nodes = []
    for x, y in (("x", "a"), ("a", "y")):
        nodes += [
            helper.make_node("DequantizeLinear", [x, "s", "z"], [f"{x}_real"]),
            helper.make_node("DequantizeLinear", ["w", "h", "z"], [f"{x}w"]),
            helper.make_node("Conv", [f"{x}_real", f"{x}w"], [f"{y}r"]),
            helper.make_node("QuantizeLinear", [f"{y}r", "t", "z"], [y]),
        ]
    values = [helper.make_tensor_value_info(n, TensorProto.INT8, [1, 2, 50]) for n in "xy"]
    tensors = [numpy_helper.from_array(np.asarray(a), n) for n, a in {**scales, "w": w}.items()]
    model = helper.make_model(
        helper.make_graph(nodes, "g", values[:1], values[1:], tensors),
        opset_imports=[helper.make_opsetid("", 13)],
        ir_version=8,
    )
    path = tmp_path / "chain.onnx"
    path.write_bytes(model.SerializeToString())
    return load(path)


@pytest.mark.parametrize("layers", [False, True])
def test_tensors_that_widening_renamed_are_compared_and_ties_counted(
    tmp_path: Path, *, layers: bool
) -> None:
    graph = chain_of_1d(tmp_path)
    x = np.random.default_rng(0).integers(-60, 60, (1, 2, 50)).astype(np.int8)
    result = check_onnxruntime(graph, [{"x": x}], [execute(graph, {"x": x})], layers=layers)
    assert result.compared == (200 if layers else 100)
    assert (result.mismatched > 0) == layers  # the second one's sums are even
    assert result.ties == result.mismatched
    assert result.passed
