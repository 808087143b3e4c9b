"""Measure the scales of the packaged ResNet-18's activations.

python tools/calibrate_resnet.py [IMAGES.npz]; IMAGES.npz holds `x`, uint8[K, 224, 224, 3] RGB;
without it, four random images.  The float network is quantized by onnxruntime (QDQ, int8, per
channel, min-max calibration) after its `quant_pre_process`; the scales go to
tilewright/demo_data/resnet18_scales.json.
"""

import json
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper  # noqa: TID251  (it writes a model)
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from tilewright.seeded_resnet import (
    CLASSES,
    EPSILON,
    IR_VERSION,
    OPSET,
    Classifier,
    Convolution,
    Residual,
    layers,
)

SCALES = Path(__file__).parents[1] / "tilewright" / "demo_data" / "resnet18_scales.json"
MEAN = np.array([0.485, 0.456, 0.406], np.float32)
DEVIATION = np.array([0.229, 0.224, 0.225], np.float32)
"""Of ImageNet's channels."""


def float_resnet18(seed: int) -> onnx.ModelProto:
    """Return the float network, normalizations and ReLUs apart."""
    nodes: list[onnx.NodeProto] = []
    weights: dict[str, np.ndarray] = {}

    def add(
        op: str, inputs: list[str], y: str, arrays: dict[str, np.ndarray], **attributes
    ) -> None:
        weights.update(arrays)
        nodes.append(helper.make_node(op, [*inputs, *arrays], [y], name=f"{y}.{op}", **attributes))

    last = ""
    for layer in layers(seed):
        match layer:
            case Convolution():
                kernel, y, n = layer.weight.shape[-1], layer.y, layer.normalization
                attributes = {"kernel_shape": [kernel] * 2, "pads": [layer.pad] * 4}
                weight = {f"{y}.w": layer.weight}
                add(
                    "Conv", [layer.x], f"{y}.conv", weight, strides=[layer.stride] * 2, **attributes
                )
                scales = dict(zip(("gamma", "beta", "mean", "variance"),
                                  (n.gamma, n.beta, n.mean, n.variance), strict=True))  # fmt: skip
                normal = f"{y}.normal" if layer.relu else y
                given = {f"{y}.{key}": array for key, array in scales.items()}
                add("BatchNormalization", [f"{y}.conv"], normal, given, epsilon=float(EPSILON))
                if layer.relu:
                    add("Relu", [normal], y, {})
                if layer.name == "stem":
                    pads = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
                    add("MaxPool", ["stem"], "pool", {}, **pads)
            case Residual():
                add("Add", [layer.a, layer.b], f"{layer.y}.sum", {})
                add("Relu", [f"{layer.y}.sum"], layer.y, {})
                last = layer.y
            case Classifier():
                add("GlobalAveragePool", [last], "mean", {})
                add("Flatten", ["mean"], "flat", {})
                add("Gemm", ["flat"], "logits", {"w": layer.weight, "b": layer.bias}, transB=1)
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 224, 224])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, CLASSES])
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "resnet18", [image], [logits], tensors)
    opset = [helper.make_opsetid("", OPSET)]
    return helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION)


class _Images(CalibrationDataReader):
    def __init__(self, images: np.ndarray) -> None:
        self._feeds: Iterator[dict[str, np.ndarray]] = iter(
            {"image": ((image / np.float32(255) - MEAN) / DEVIATION).transpose(2, 0, 1)[None]}
            for image in images.astype(np.float32)
        )

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._feeds, None)


def quantized_by_onnxruntime(seed: int, images: np.ndarray) -> onnx.ModelProto:
    """Return what onnxruntime's static quantizer makes of the network; images uint8[K, H, W, 3]."""
    with tempfile.TemporaryDirectory() as folder:
        real, prepared, quantized = (Path(folder) / f"{i}.onnx" for i in range(3))
        onnx.save(float_resnet18(seed), real)
        quant_pre_process(real, prepared, skip_symbolic_shape=True)
        quantize_static(
            prepared,
            quantized,
            _Images(images),
            quant_format=QuantFormat.QDQ,
            per_channel=True,
            activation_type=QuantType.QInt8,
            weight_type=QuantType.QInt8,
        )
        return onnx.load(quantized)


def activations(model: onnx.ModelProto) -> dict[str, tuple[float, int]]:
    """Return {tensor: (scale, zero point)} of its QuantizeLinear nodes; one name a scale."""
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    found: dict[str, tuple[float, int]] = {}
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear":
            name = node.input[1].removesuffix("_scale")
            found[name] = (float(arrays[node.input[1]]), int(arrays[node.input[2]]))
    return found


def main() -> None:
    """Write the scales for seed 0."""
    if len(sys.argv) > 1:
        images = np.load(sys.argv[1])["x"]
    else:
        images = np.random.default_rng(0).integers(0, 256, (4, 224, 224, 3)).astype(np.uint8)
    found = activations(quantized_by_onnxruntime(0, images))
    rows = [f'  "{name}": [{scale!r}, {zero}]' for name, (scale, zero) in found.items()]
    text = "{\n" + ",\n".join(rows) + "\n}\n"
    json.loads(text)
    SCALES.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
