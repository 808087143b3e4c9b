"""Every quantized model of the folder: host kernels, exact arithmetic and onnxruntime agree."""

from pathlib import Path

import numpy as np
import pytest

from tilewright.check import check
from tilewright.compiler.ir.graph import Graph
from tilewright.compiler.load import load
from tilewright.compiler.passes.bind_shapes import bind_shapes
from tilewright.runtime.host import KERNELS
from tilewright.runtime.tensor import Array

MODELS = [
    *("lenet5_int8_qdq_s8", "lenet5_int8_qop_u8"),
    *("mnist-8_opset13_int8_qdq_s8", "mnist-8_opset13_int8_qop_u8"),
    *("ic01_int8_qdq", "ic01_int8_qop", "ic01_int8_tf2onnx"),
    *("kws01_int8_qdq", "kws01_int8_qop", "kws01_int8_tf2onnx"),
    *("vww01_int8_qdq", "vww01_int8_qop", "vww01_int8_tf2onnx"),
    *("ad01_int8_qdq", "ad01_int8_qop", "ad01_int8_tf2onnx"),
    *("hello_world_int8_qdq", "hello_world_int8_qop"),
    *("mobilenet_v2_int8_qdq", "mobilenet_v2_int8_qop"),
    *("ultraface_rfb320_int8_qdq", "ppocr_cls_mobilenetv3_int8_qdq"),
    *("vit_tiny_int8_qdq_s8", "vit_tiny_int8_qop_u8"),
]
REAL = {"Softmax", "HardSigmoid", "Exp", "Erf", "LayerNormalization", "ReduceMean"}
"""Operators of these models that are no integer arithmetic."""


def run_on_host(graph: Graph, feeds: dict[str, Array]) -> dict[str, Array]:
    tensors: dict[str, Array] = {**graph.constants, **feeds}
    for node in graph.nodes:
        arrays = [tensors[name] if name else None for name in node.inputs]
        kinds = [graph.type(name) if name else None for name in node.inputs]
        out = [graph.type(name) for name in node.outputs]
        results = KERNELS[node.op](arrays, node.attributes, kinds, out)
        for name, kind, array in zip(node.outputs, out, results, strict=True):
            assert (str(array.dtype), array.shape) == (kind.dtype, kind.shape)
            tensors[name] = array
    return {name: array for name, array in tensors.items() if name not in graph.constants}


@pytest.mark.models
@pytest.mark.parametrize("name", MODELS)
def test_host_kernels_exact_arithmetic_and_onnxruntime_agree(
    name: str, models_folder: Path
) -> None:
    graph = load(models_folder / "models" / f"{name}.onnx")
    symbols = {dim for value in graph.inputs for dim in value.shape if isinstance(dim, str)}
    graph = bind_shapes(graph, dict.fromkeys(symbols, 1))
    rng = np.random.default_rng(0)
    feeds = {
        value.name: rng.random(value.shape, dtype=np.float32)
        if value.dtype == "float32"
        else rng.integers(-128, 128, value.shape).astype(value.dtype)
        for value in graph.inputs
    }
    run = run_on_host(graph, feeds)
    result = check(graph, [feeds], [run], layers=True)
    assert result.exact.mismatched == 0
    assert result.onnxruntime.failed == ()
    assumed = {node.op for node in graph.nodes if set(node.outputs) & set(result.exact.assumed)}
    assert assumed <= REAL
    made = sum(run[n].size for node in graph.nodes for n in node.outputs)
    left = sum(run[n].size for n in result.exact.assumed)
    assert result.exact.compared == made - left
