"""A ResNet-18 with random weights from a seed, as an int8 QDQ ONNX model.

The model is the one that onnxruntime's static quantizer (QDQ, int8, per channel) makes of the
float network after `quant_pre_process`, given the same calibration; only the scales of its
activations, measured once by tools/calibrate_resnet.py, are stored with the package.
Architecture: He et al., Deep Residual Learning for Image Recognition, 2016, table 1, 18 layers.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper  # noqa: TID251  (this module writes a model)

from tilewright.runtime.tensor import Array, Quantization

Float32 = NDArray[np.float32]
Activations = Mapping[str, Quantization]
OnnxAttributes = Mapping[str, int | list[int]]

CLASSES = 1000
EPSILON = np.float32(1e-5)
OPSET, IR_VERSION = 17, 8
_STAGES = ((64, 1), (128, 2), (256, 2), (512, 2))
_BLOCKS = 2
_LAST = "stage4.block2"
_POOL = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
_SCALES = "demo_data/resnet18_scales.json"


@dataclass(frozen=True, slots=True)
class Normalization:
    """Batch normalization at inference: (x − mean) / √(variance + ε) · gamma + beta."""

    gamma: Float32
    beta: Float32
    mean: Float32
    variance: Float32


@dataclass(frozen=True, slots=True)
class Convolution:
    """x ↦ y: a convolution, its normalization and, where `relu` is set, a ReLU."""

    name: str
    x: str
    y: str
    weight: Float32
    normalization: Normalization
    stride: int
    pad: int
    relu: bool


@dataclass(frozen=True, slots=True)
class Residual:
    """y = ReLU(a + b)."""

    name: str
    a: str
    b: str
    y: str


@dataclass(frozen=True, slots=True)
class Classifier:
    """The weights float32[1000, 512] and bias of the last layer."""

    weight: Float32
    bias: Float32


Layer = Convolution | Residual | Classifier


def layers(seed: int) -> Iterator[Layer]:
    """Yield the float network's layers in order; max pooling follows the first.

    Weights are normal with variance 2 / fan-in, normalizations random.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    yield _convolution(rng, "stem", "image", "stem", (3, 64, 7), stride=2, relu=True)
    x, channels = "pool", 64
    for stage, (width, first_stride) in enumerate(_STAGES, 1):
        for block in range(1, _BLOCKS + 1):
            name, stride = f"stage{stage}.block{block}", first_stride if block == 1 else 1
            middle, added = f"{name}.conv1", f"{name}.conv2"
            shape = (channels, width, 3)
            yield _convolution(rng, middle, x, middle, shape, stride=stride, relu=True)
            yield _convolution(rng, added, middle, added, (width, width, 3), stride=1, relu=False)
            shortcut = x
            if stride != 1 or channels != width:
                shortcut, shape = f"{name}.shortcut", (channels, width, 1)
                yield _convolution(rng, shortcut, x, shortcut, shape, stride=stride, relu=False)
            yield Residual(f"{name}.add", added, shortcut, name)
            x, channels = name, width
    weight = rng.standard_normal((CLASSES, channels)) * np.sqrt(2 / channels)
    bias = rng.standard_normal(CLASSES) * 0.05
    yield Classifier(weight.astype(np.float32), bias.astype(np.float32))


def _convolution(
    rng: np.random.Generator,
    name: str,
    x: str,
    y: str,
    shape: tuple[int, int, int],
    *,
    stride: int,
    relu: bool,
) -> Convolution:
    channels, width, kernel = shape
    fan_in = channels * kernel * kernel
    weight = rng.standard_normal((width, channels, kernel, kernel)) * np.sqrt(2 / fan_in)
    normalization = Normalization(
        rng.uniform(0.5, 1.5, width).astype(np.float32),
        (rng.standard_normal(width) * 0.1).astype(np.float32),
        (rng.standard_normal(width) * 0.1).astype(np.float32),
        rng.uniform(0.5, 1.5, width).astype(np.float32),
    )
    return Convolution(
        name, x, y, weight.astype(np.float32), normalization, stride, kernel // 2, relu
    )


def packaged_activations() -> dict[str, Quantization]:
    """Return the activations' quantizations that come with the package, for seed 0."""
    text = resources.files("tilewright").joinpath(_SCALES).read_text(encoding="utf-8")
    return {
        name: Quantization((float(np.float32(scale)),), (zero_point,))
        for name, (scale, zero_point) in json.loads(text).items()
    }


def quantized_resnet18(seed: int = 0, activations: Activations | None = None) -> onnx.ModelProto:
    """Return the int8 model: image float32[1, 3, 224, 224] → logits float32[1, 1000].

    `activations` has the quantization of the image, of every layer's output and of `mean`.
    """
    writer = _Writer(packaged_activations() if activations is None else activations)
    writer.quantize("image", "image", "image")
    for layer in layers(seed):
        match layer:
            case Convolution():
                writer.convolve(layer)
                if layer.name == "stem":
                    writer.operator("MaxPool", ["stem"], "pool", _POOL, scale_of="stem")
            case Residual():
                writer.operator("Add", [layer.a, layer.b], layer.y, name=layer.name)
            case Classifier():
                writer.operator("GlobalAveragePool", [_LAST], "mean")
                writer.operator("Flatten", ["mean"], "flat", {"axis": 1}, scale_of="mean")
                writer.classify(layer, "flat")
    return writer.model()


def write_resnet18(path: Path) -> None:
    """Write the packaged model, 11.8 MB."""
    path.write_bytes(quantized_resnet18().SerializeToString(deterministic=True))


class _Writer:
    """The ONNX graph in the making: activation `x` is read as x.real and stored as x.stored."""

    def __init__(self, activations: Activations) -> None:
        self._activations = activations
        self._nodes: list[onnx.NodeProto] = []
        self._weights: dict[str, Array] = {}
        self._scales: dict[str, np.float32] = {}

    def quantize(self, real: str, x: str, scale_of: str) -> None:
        """Append x.stored = Q(real) and x.real = DQ(x.stored)."""
        q = self._activations[scale_of]
        self._scales[x] = np.float32(q.scale[0])
        self._weights[f"{scale_of}.scale"] = np.array(q.scale[0], np.float32)
        self._weights[f"{scale_of}.zero_point"] = np.array(q.zero_point[0], np.int8)
        scale = [f"{scale_of}.scale", f"{scale_of}.zero_point"]
        self._node("QuantizeLinear", f"{x}.quantize", [real, *scale], f"{x}.stored")
        self._node("DequantizeLinear", f"{x}.dequantize", [f"{x}.stored", *scale], f"{x}.real")

    def operator(
        self,
        op: str,
        inputs: list[str],
        y: str,
        attributes: OnnxAttributes | None = None,
        *,
        name: str = "",
        scale_of: str = "",
    ) -> None:
        """Append y = op(inputs), quantized; `scale_of` names another tensor with y's scale."""
        self._node(op, name or y, [f"{x}.real" for x in inputs], y, attributes)
        self.quantize(y, y, scale_of or y)

    def convolve(self, layer: Convolution) -> None:
        """Append a convolution with its normalization folded in; int8 saturation is its ReLU."""
        n = layer.normalization
        factor = n.gamma / np.sqrt(n.variance + EPSILON)
        weight = layer.weight * factor[:, None, None, None]
        operands = self._operands(layer.name, layer.x, weight, n.beta - n.mean * factor)
        kernel, pad, stride = layer.weight.shape[-1], layer.pad, layer.stride
        attributes = {"kernel_shape": [kernel] * 2, "strides": [stride] * 2, "pads": [pad] * 4}
        self._node("Conv", layer.name, operands, layer.y, attributes)
        self.quantize(layer.y, layer.y, layer.y)

    def classify(self, layer: Classifier, x: str) -> None:
        """Append the fully connected layer, to real logits."""
        operands = self._operands("classifier", x, layer.weight, layer.bias)
        self._node("Gemm", "classifier", operands, "classifier", {"transB": 1})
        self.quantize("classifier", "logits", "logits")
        self._nodes[-1].output[0] = "logits"

    def _operands(self, name: str, x: str, weight: Float32, bias: Float32) -> list[str]:
        """Quantize weights, symmetric per channel, and bias in units of the accumulators."""
        limit = np.abs(weight).reshape(len(weight), -1).max(1).astype(np.float64)
        scale = (2 * limit / 254).astype(np.float32)
        steps = weight / scale.reshape(-1, *(1,) * (weight.ndim - 1))
        stored = np.clip(np.rint(steps), -128, 127).astype(np.int8)
        unit = self._scales[x] * scale
        ticks = np.rint(bias.astype(np.float64) / unit.astype(np.float64)).astype(np.int32)
        return [
            f"{x}.real",
            self._constant(f"{name}.weight", stored, scale),
            self._constant(f"{name}.bias", ticks, unit),
        ]

    def _constant(self, name: str, stored: Array, scale: Float32) -> str:
        self._weights[f"{name}.stored"] = stored
        self._weights[f"{name}.scale"] = scale
        self._weights[f"{name}.zero_point"] = np.zeros(scale.shape, stored.dtype)
        inputs = [f"{name}.stored", f"{name}.scale", f"{name}.zero_point"]
        self._node("DequantizeLinear", f"{name}.dequantize", inputs, name, {"axis": 0})
        return name

    def _node(
        self,
        op: str,
        name: str,
        inputs: list[str],
        y: str,
        attributes: OnnxAttributes | None = None,
    ) -> None:
        node = helper.make_node(op, inputs, [y], name=name)
        node.attribute.extend(
            helper.make_attribute(key, value) for key, value in (attributes or {}).items()
        )
        self._nodes.append(node)

    def model(self) -> onnx.ModelProto:
        """Return the finished model."""
        image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 224, 224])
        logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, CLASSES])
        tensors = [numpy_helper.from_array(a, name) for name, a in self._weights.items()]
        graph = helper.make_graph(self._nodes, "resnet18", [image], [logits], tensors)
        opset = [helper.make_opsetid("", OPSET)]
        return helper.make_model(
            graph, opset_imports=opset, ir_version=IR_VERSION, producer_name="tilewright"
        )
