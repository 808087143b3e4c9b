"""What the host runs of the shared int8 models; every tensor of the transformers is exact."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tilewright.check import check_exact
from tilewright.compiler.ir.graph import Graph
from tilewright.compiler.load import load
from tilewright.compiler.passes.bind_shapes import bind_shapes
from tilewright.compiler.pipeline import compile_graph
from tilewright.feeds import random_feeds
from tilewright.hw.config import Config
from tilewright.runtime.executor import Executor
from tilewright.runtime.program import Program
from tilewright.sim.functional import FunctionalEngine

IN_REALS = {"QuantizeLinear": 1, "DequantizeLinear": 1}
VIT = {
    "Reshape": 1,  # of the real input
    "LayerNormalization": 5,
    "QuantizeLinear": 6,
    "DequantizeLinear": 6,
    "Softmax": 2,
    "Erf": 2,
}
HOST: dict[str, dict[str, int]] = {
    "ad01_int8_qdq": {},
    "ad01_int8_qop": {},
    "ad01_int8_tf2onnx": {},
    "hello_world_int8_qdq": {},
    "hello_world_int8_qop": {},
    "ic01_int8_qdq": {"Softmax": 1},
    "ic01_int8_qop": {"Softmax": 1},
    "ic01_int8_tf2onnx": {"Softmax": 1},
    "kws01_int8_qdq": {"Softmax": 1},
    "kws01_int8_qop": {"Softmax": 1},
    "kws01_int8_tf2onnx": {"Softmax": 1},
    "lenet5_int8_qdq_s8": IN_REALS,
    "lenet5_int8_qop_u8": IN_REALS,
    "mnist-8_opset13_int8_qdq_s8": IN_REALS,
    "mnist-8_opset13_int8_qop_u8": IN_REALS,
    "mobilenet_v2_int8_qdq": {},
    "mobilenet_v2_int8_qop": {},
    "ppocr_cls_mobilenetv3_int8_qdq": {**IN_REALS, "HardSigmoid": 9, "Softmax": 1},
    "ultraface_rfb320_int8_qdq": {
        "QuantizeLinear": 1,
        "Softmax": 1,
        "Exp": 1,
        "DequantizeLinear": 2,
    },
    "vit_tiny_int8_qdq_s8": VIT,
    "vit_tiny_int8_qop_u8": {**VIT, "ReduceMean": 1},  # the mean of it is of real values
    "vww01_int8_qdq": {"Softmax": 1},
    "vww01_int8_qop": {"Softmax": 1},
    "vww01_int8_tf2onnx": {"Softmax": 1},
}
"""What the host runs of each model at pynq-z1, all else being the accelerator's."""

CONFIGS = ("tiny", "pynq-z1", "block_in=8,block_out=32", "batch=4,block_in=32,block_out=32")


def graph_of(folder: Path, name: str) -> Graph:
    graph = load(folder / "models" / f"{name}.onnx")
    symbols = {d for value in graph.inputs for d in value.shape if isinstance(d, str)}
    return bind_shapes(graph, dict.fromkeys(symbols, 1))


def expect_exact_tensors(graph: Graph, program: Program) -> None:
    rng = np.random.default_rng(0)
    types = {value.name: value.type for value in graph.inputs}
    [feeds] = random_feeds(types, samples=1, seed=0)
    engine = FunctionalEngine(program.config, rng=rng)
    tensors = Executor(program, engine, all_tensors=True).run(feeds).tensors
    found = check_exact(graph, [feeds], [tensors], layers=True)
    assert found.passed, found.first


@pytest.mark.models
@pytest.mark.parametrize("name", HOST)
def test_only_real_valued_operators_are_on_the_host(models_folder: Path, name: str) -> None:
    program = compile_graph(graph_of(models_folder, name), Config.preset("pynq-z1"))
    host = Counter(layer.op for layer in program.layers if layer.target == "cpu")
    assert host == Counter(HOST[name])


@pytest.mark.models
@pytest.mark.parametrize("name", [name for name in HOST if name.startswith("vit")])
@pytest.mark.parametrize("text", CONFIGS)
def test_every_tensor_of_a_transformer_is_exact(models_folder: Path, name: str, text: str) -> None:
    graph = graph_of(models_folder, name)
    expect_exact_tensors(graph, compile_graph(graph, Config.parse(text)))
