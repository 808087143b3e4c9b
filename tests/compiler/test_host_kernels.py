"""Host kernels against onnxruntime, one operator a model."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

from tilewright.compiler.load import load

RNG = np.random.default_rng(3)
X = RNG.standard_normal((2, 3, 4)).astype(np.float32)
POSITIVE = np.abs(X) + np.float32(0.1)
OTHER = RNG.standard_normal((3, 1)).astype(np.float32)
I64 = np.int64


def ints(*values: int) -> np.ndarray:
    return np.array(values, I64)


UNARY = [
    *("Relu", "Abs", "Ceil", "Cos", "Elu", "Erf", "Exp", "Floor", "HardSigmoid", "HardSwish"),
    *("LeakyRelu", "Neg", "Reciprocal", "Round", "Selu", "Sigmoid", "Sign", "Sin", "Softplus"),
    *("Tanh", "Softmax", "LogSoftmax", "Identity", "Flatten", "Transpose", "Shape"),
]
WITH_CONSTANTS = [
    ("Log", POSITIVE, [], {}),
    ("Sqrt", POSITIVE, [], {}),
    ("Add", X, [OTHER], {}),
    ("Sub", X, [OTHER], {}),
    ("Mul", X, [OTHER], {}),
    ("Div", X, [OTHER], {}),
    ("Max", X, [OTHER], {}),
    ("Min", X, [OTHER], {}),
    ("Pow", POSITIVE, [np.float32(1.5)], {}),
    ("PRelu", X, [OTHER], {}),
    ("Greater", X, [OTHER], {}),
    ("LessOrEqual", X, [OTHER], {}),
    ("Equal", X, [X], {}),
    ("Clip", X, [np.float32(-0.5), np.float32(0.25)], {}),
    ("Reshape", X, [ints(0, -1)], {}),
    ("Squeeze", X[:, :1], [ints(1)], {}),
    ("Unsqueeze", X, [ints(0, -1)], {}),
    ("Expand", X[:, :1], [ints(2, 3, 4)], {}),
    ("Slice", X, [ints(1, -1), ints(3, -(2**40)), ints(1, 2), ints(1, -2)], {}),
    ("Pad", X, [ints(0, 1, 2, 0, 0, -1), np.float32(1.5)], {}),
    ("Pad", X, [ints(0, 1, 2, 0, 0, 1)], {"mode": "reflect"}),
    ("Pad", X, [ints(0, 1, 2, 0, 0, 1)], {"mode": "edge"}),
    ("Gather", X, [ints(2, 0)], {"axis": 1}),
    ("Concat", X, [X], {"axis": -1}),
    ("Softmax", X, [], {"axis": 1}),
    ("Elu", X, [], {"alpha": 0.5}),
    ("LeakyRelu", X, [], {"alpha": 0.3}),
    ("Flatten", X, [], {"axis": 2}),
    ("Transpose", X, [], {"perm": [1, 2, 0]}),
    ("ReduceMean", X, [], {"axes": [1, -1], "keepdims": 0}),
    ("ReduceMax", X, [], {"axes": [1]}),
    ("ReduceMin", X, [], {}),
    ("ReduceProd", X, [], {"axes": [2]}),
    ("ReduceL2", X, [], {"axes": [2]}),
    ("ReduceSum", X, [ints(0, 2)], {"keepdims": 0}),
    ("ReduceSum", X, [ints()], {}),
    ("Shape", X, [], {"start": 1, "end": -1}),
    ("Cast", X, [], {"to": 6}),
    ("LayerNormalization", X, [X[0, 0], X[0, 1]], {"axis": -1}),
    ("BatchNormalization", X, [X[0, :, 0], X[0, :, 1], X[0, :, 2], POSITIVE[0, :, 3]], {}),
    ("AveragePool", X, [], {"kernel_shape": [2], "strides": [2], "pads": [1, 0]}),
    ("MaxPool", X, [], {"kernel_shape": [3], "auto_pad": "SAME_UPPER", "strides": [2]}),
    ("GlobalAveragePool", X, [], {}),
    ("GlobalMaxPool", X, [], {}),
    ("Split", X, [ints(1, 3)], {"axis": 2}),
]


def check_against_onnxruntime(
    model_file, run_on_host, op: str, x: np.ndarray, constants, attributes
) -> None:
    names = [f"c{i}" for i in range(len(constants))]
    outputs = ["y", "y1"] if op == "Split" else ["y"]
    node = helper.make_node(op, ["x", *names], outputs, **attributes)
    weights = {name: np.asarray(c) for name, c in zip(names, constants, strict=True)}
    path = model_file([node], {"x": ("float32", x.shape)}, {}, weights, opset=17)
    proto = onnx.load(path)
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
    path.write_bytes(proto.SerializeToString())
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    graph = load(path)
    tensors = run_on_host(graph, {"x": x})
    for name, expected in zip(outputs, session.run(outputs, {"x": x}), strict=True):
        got = tensors[name]
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
        assert (str(got.dtype), got.shape) == (graph.type(name).dtype, graph.type(name).shape)
        # A few units in the last place: sums and exponentials in another order.
        np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("op", UNARY)
def test_unary_operator_agrees_with_onnxruntime(model_file, run_on_host, op: str) -> None:
    check_against_onnxruntime(model_file, run_on_host, op, X, [], {})


@pytest.mark.parametrize(
    ("op", "x", "constants", "attributes"), WITH_CONSTANTS, ids=[c[0] for c in WITH_CONSTANTS]
)
def test_operator_agrees_with_onnxruntime(
    model_file, run_on_host, op: str, x, constants, attributes
) -> None:
    check_against_onnxruntime(model_file, run_on_host, op, x, constants, attributes)
