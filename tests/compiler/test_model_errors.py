"""Every bad model gives one line that names the thing, the reason and what to do."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from tilewright.compiler.frontend.onnx_file import MAX_OPSET
from tilewright.compiler.load import load
from tilewright.hw.errors import ModelError

FLOAT = {"x": ("float32", (1, 4))}
RESULT = {"y": ("float32", (1, 4))}


def message(path: Path) -> str:
    with pytest.raises(ModelError) as raised:
        load(path)
    return str(raised.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "none.onnx"
    assert message(path) == f"{path}: no such file"


@pytest.mark.parametrize("data", [b"PK\x03\x04 a zip file", b"\x89PNG\r\n\x1a\n", b"hello, world"])
def test_a_file_of_another_kind_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.onnx"
    path.write_bytes(data)
    assert message(path) == f"{path}: not an ONNX file; give an .onnx model or a .twp program"


def test_an_empty_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.onnx"
    path.write_bytes(b"")
    assert message(path) == f"{path}: empty file; copy the file again"


def test_a_truncated_file_says_how_much_is_missing(tmp_path: Path, lenet5_path: Path) -> None:
    data = lenet5_path.read_bytes()
    path = tmp_path / "x.onnx"
    path.write_bytes(data[:5000])
    text = message(path)
    assert text.startswith(f"{path}: truncated: 5000 bytes of at least ")
    assert text.endswith("; copy the file again")
    assert 5000 < int(text.split(" of at least ")[1].split(";")[0]) <= len(data)


def test_every_truncation_is_an_error_of_ours(tmp_path: Path, model_file) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    data = model_file([node], FLOAT, RESULT, {}).read_bytes()
    path = tmp_path / "cut.onnx"
    # Only the last opset, which the graph does not need, may be missing unnoticed.
    for size in range(len(data) - len(b"com.microsoft") - 8):
        path.write_bytes(data[:size])
        assert str(path) in message(path)


def test_an_undefined_input_means_missing_weights(model_file) -> None:
    node = helper.make_node("Add", ["x", "bias"], ["y"], name="add")
    path = model_file([node], FLOAT, RESULT, {})
    assert message(path) == (
        f"{path}: node 'add': Add: its input 'bias' is no initializer, graph input or output of"
        " an earlier node; the file lacks weights"
    )


def external(path: Path, length: int) -> None:
    model = onnx.load(path)
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in {"location": "w.bin", "offset": "0", "length": str(length)}.items():
        tensor.external_data.add(key=key, value=value)
    path.write_bytes(model.SerializeToString())


def test_a_missing_weight_file_is_named(model_file) -> None:
    node = helper.make_node("Add", ["x", "w"], ["y"], name="add")
    path = model_file([node], FLOAT, RESULT, {"w": np.ones(4, np.float32)})
    external(path, 16)
    assert message(path) == (
        f"{path}: weight 'w' is stored in {path.parent / 'w.bin'}, which does not exist;"
        " put it beside the model"
    )


def test_a_short_weight_file_is_named(model_file) -> None:
    node = helper.make_node("Add", ["x", "w"], ["y"], name="add")
    path = model_file([node], FLOAT, RESULT, {"w": np.ones(4, np.float32)})
    external(path, 16)
    (path.parent / "w.bin").write_bytes(b"\0" * 12)
    assert message(path) == (
        f"{path}: weight 'w' needs 16 bytes of {path.parent / 'w.bin'}, which has 12;"
        " copy the file again"
    )


def test_external_weights_become_part_of_the_kept_model(model_file) -> None:
    node = helper.make_node("Add", ["x", "w"], ["y"], name="add")
    path = model_file([node], FLOAT, RESULT, {"w": np.ones(4, np.float32)})
    external(path, 16)
    (path.parent / "w.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    graph = load(path)
    kept = onnx.load_model_from_string(graph.model).graph.initializer[0]
    np.testing.assert_array_equal(graph.constants["w"], np.arange(4))
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(kept), np.arange(4))


@pytest.mark.parametrize(
    ("op", "domain", "shown"),
    [("NonMaxSuppression", "", "ai.onnx"), ("FancyOp", "org.example", "org.example")],
)
def test_an_unsupported_operator_names_node_operator_and_domain(
    model_file, op: str, domain: str, shown: str
) -> None:
    node = helper.make_node(op, ["x"], ["y"], name="strange", domain=domain)
    path = model_file([node], FLOAT, RESULT, {})
    assert message(path) == (
        f"{path}: node 'strange': operator {op} of domain {shown} is not supported;"
        " replace it in the exported model"
    )


def test_a_float_model_is_refused(model_file) -> None:
    node = helper.make_node("MatMul", ["x", "w"], ["y"], name="dense")
    path = model_file([node], FLOAT, RESULT, {"w": np.eye(4, dtype=np.float32)})
    assert message(path) == (
        f"{path}: node 'dense': MatMul works on float32: the model is not quantized;"
        " give an int8 model (QDQ or QLinear form)"
    )


@pytest.mark.parametrize("opset", [9, MAX_OPSET + 1])
def test_a_wrong_opset_is_refused(model_file, opset: int) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    path = model_file([node], FLOAT, RESULT, {}, opset=opset)
    assert message(path) == (
        f"{path}: opset {opset} of ai.onnx; opsets 10 to {MAX_OPSET} are read;"
        " convert the model with onnx.version_converter"
    )


def test_operands_that_do_not_fit_are_shown(model_file) -> None:
    node = helper.make_node("MatMulInteger", ["x", "w"], ["y"], name="dense")
    weights = {"w": np.ones((3, 2), np.int8)}
    path = model_file([node], {"x": ("int8", (1, 4))}, {"y": ("int32", (1, 2))}, weights)
    assert message(path) == (
        f"{path}: node 'dense': MatMul: it cannot multiply int8[1, 4] {{s=1 z=0}} by"
        " int8[3, 2] {s=1 z=0}: 4 columns, 3 rows"
    )


def test_a_scale_computed_at_run_time_is_refused(model_file) -> None:
    node = helper.make_node("QuantizeLinear", ["x", "s"], ["y"], name="quantize")
    inputs = {**FLOAT, "s": ("float32", ())}
    path = model_file([node], inputs, {"y": ("uint8", (1, 4))}, {})
    assert message(path) == (
        f"{path}: node 'quantize': QuantizeLinear: its scale 's' is not a constant;"
        " export the model with fixed values"
    )


def test_a_weight_without_data_is_named(model_file) -> None:
    node = helper.make_node("Add", ["x", "w"], ["y"], name="add")
    path = model_file([node], FLOAT, RESULT, {"w": np.ones(4, np.float32)})
    model = onnx.load(path)
    model.graph.initializer[0].ClearField("raw_data")
    path.write_bytes(model.SerializeToString())
    assert message(path) == (
        f"{path}: weight 'w' has no data, or not that of its element type 1 and shape [4];"
        " export the model again"
    )


def test_a_node_with_too_few_inputs_is_named(model_file) -> None:
    node = helper.make_node("QLinearConv", ["x"], ["y"], name="conv")
    path = model_file([node], FLOAT, RESULT, {})
    assert message(path) == (
        f"{path}: node 'conv': QLinearConv: 1 inputs and 1 outputs are too few"
    )


def test_a_padding_mode_without_kernel_is_named(model_file) -> None:
    node = helper.make_node("Pad", ["x", "pads"], ["y"], name="pad", mode="wrap")
    path = model_file([node], FLOAT, RESULT, {"pads": np.zeros(4, np.int64)}, opset=19)
    assert message(path) == (
        f"{path}: node 'pad': Pad: mode=wrap is not supported; constant, edge and reflect are"
    )


def qlinear_model(model_file, weights: dict, **attributes) -> Path:
    """A QLinearConv over x uint8[1, 2, 5, 5] with `weights` replaced."""
    names = ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy", "b"]
    node = helper.make_node("QLinearConv", names, ["y"], name="c", **attributes)
    scale, zero = np.float32(0.1), np.uint8(3)
    given = {"sx": scale, "zx": zero, "sw": scale, "zw": np.int8(0), "sy": scale, "zy": zero}
    given |= {"w": np.ones((3, 2, 3, 3), np.int8), "b": np.zeros(3, np.int32)}
    shapes = {"x": ("uint8", (1, 2, 5, 5))}, {"y": ("uint8", (1, 3, 3, 3))}
    return model_file([node], *shapes, given | weights)


@pytest.mark.parametrize(
    ("weights", "attributes", "reason"),
    [
        ({}, {"dilations": [0, 1]}, "dilations=[0, 1]; 2 numbers are needed, all above zero"),
        ({}, {"strides": [0, 1]}, "strides=[0, 1]; 2 numbers are needed, all above zero"),
        ({}, {"pads": [-1, 0, 0, 0]}, "pads=[-1, 0, 0, 0]; 4 numbers are needed, none negative"),
        ({"b": np.zeros(3, np.float32)}, {}, "its bias 'b' is float32, not int32"),
        ({"zx": np.int8(3)}, {}, "its zero point is int8, its tensor 'x' uint8"),
        ({"sw": np.ones(5, np.float32)}, {}, "5 scales for axis 0 of int8[3, 2, 3, 3]"),
    ],
)
def test_a_convolution_that_onnx_forbids_is_refused(
    model_file, weights: dict, attributes: dict, reason: str
) -> None:
    path = qlinear_model(model_file, weights, **attributes)
    assert message(path) == f"{path}: node 'c': QLinearConv: {reason}"


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "reason"),
    [
        ("Transpose", ["x"], {"perm": [0, 0]}, "perm=[0, 0] does not order the axes of"),
        ("Flatten", ["x"], {"axis": 9}, "axis=9 is outside its input"),
        ("Softmax", ["x"], {"axis": 2}, "axes=[2] do not fit 2 dimensions"),
        ("Concat", ["x", "other"], {"axis": 0}, "its parts float32[1, 4] and float32[1, 5] do"),
    ],
)
def test_an_axis_that_is_not_there_is_refused(
    model_file, op: str, inputs: list[str], attributes: dict, reason: str
) -> None:
    node = helper.make_node(op, inputs, ["y"], name="n", **attributes)
    path = model_file([node], FLOAT | {"other": ("float32", (1, 5))}, RESULT, {})
    assert message(path).startswith(f"{path}: node 'n': {op}: {reason}")


def test_an_input_declared_twice_is_refused(model_file) -> None:
    path = model_file([helper.make_node("Relu", ["x"], ["y"])], FLOAT, RESULT, {})
    model = onnx.load(path)
    model.graph.input.append(model.graph.input[0])
    path.write_bytes(model.SerializeToString())
    assert message(path) == f"{path}: graph model: input 'x' is declared twice; keep one"


def test_scales_too_far_apart_are_refused_with_the_node(model_file) -> None:
    path = qlinear_model(model_file, {"sy": np.float32(1e-10)})
    assert message(path).startswith(f"{path}: node 'c': Conv: requantize: scale ratio 1")
    names = ["x", "sx", "zx", "x", "sx", "zx", "sy", "zx"]
    node = helper.make_node("QLinearAdd", names, ["y"], name="sum", domain="com.microsoft")
    weights = {"sx": np.float32(1), "zx": np.uint8(0), "sy": np.float32(2**-22)}
    values = {"x": ("uint8", (1, 4))}, {"y": ("uint8", (1, 4))}
    path = model_file([node], *values, weights)
    assert message(path).startswith(f"{path}: node 'sum': Add: add: scale ratios (4194304.0,")
