"""Every quantized network of the folder, and the seeded ResNet-18, on the accelerator.

Engines agree byte for byte on every tensor, and with the exact executor; what runs on the host
is pinned.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright.check import check_exact
from tilewright.feeds import random_feeds
from tilewright.seeded_resnet import write_resnet18

REAL = {"QuantizeLinear", "DequantizeLinear", "Softmax", "HardSigmoid", "Exp", "Erf"}
REAL |= {"LayerNormalization", "ReduceMean"}
"""Operators on real numbers: all that may stay on the host, unless a network says more."""

BORDERS = {"QuantizeLinear", "DequantizeLinear"}
NETWORKS: Mapping[str, set[str]] = {
    "lenet5_int8_qdq_s8": BORDERS,
    "lenet5_int8_qop_u8": BORDERS,
    "mnist-8_opset13_int8_qdq_s8": BORDERS,
    "mnist-8_opset13_int8_qop_u8": BORDERS,
    "ic01_int8_qdq": {"Softmax"},
    "ic01_int8_qop": {"Softmax"},
    "ic01_int8_tf2onnx": {"Softmax"},
    "kws01_int8_qdq": {"Softmax"},
    "kws01_int8_qop": {"Softmax"},
    "kws01_int8_tf2onnx": {"Softmax"},
    "vww01_int8_qdq": {"Softmax"},
    "vww01_int8_qop": {"Softmax"},
    "vww01_int8_tf2onnx": {"Softmax"},
    "ad01_int8_qdq": set(),
    "ad01_int8_qop": set(),
    "ad01_int8_tf2onnx": set(),
    "hello_world_int8_qdq": set(),
    "hello_world_int8_qop": set(),
    "mobilenet_v2_int8_qdq": set(),
    "mobilenet_v2_int8_qop": set(),
    "ultraface_rfb320_int8_qdq": {*BORDERS, "Softmax", "Exp"},
    "ppocr_cls_mobilenetv3_int8_qdq": {*BORDERS, "HardSigmoid", "Softmax"},
}
SMALL = [name for name in NETWORKS if name.startswith(("mnist", "ic01", "kws01", "ad01", "hello"))]
CONFIGS = ("pynq-z1", "tiny", "block_in=8,block_out=32", "batch=4,block_in=32,block_out=32")


def check_network(path: Path, config: str, host: set[str]) -> None:
    """Compare every tensor of both engines with each other and with exact arithmetic."""
    executable = tw.compile(tw.load(path), config=config)
    layers = executable.program.layers
    assert {layer.op for layer in layers if layer.target == "cpu"} <= host, path.stem
    graph = tw.model.reference_graph(executable.program)
    types = {name: executable.program.tensor(name).type for name in executable.program.inputs}
    [feeds] = random_feeds(types, samples=1, seed=0)
    functional = executable.run(feeds, engine="functional", tensors=True).tensors
    rtl = executable.run(feeds, engine="rtl", tensors=True).tensors
    for name, array in functional.items():
        np.testing.assert_array_equal(rtl[name], array, err_msg=f"{path.stem}: {name}")
    result = check_exact(graph, [feeds], [rtl], layers=True)
    assert result.compared > 0
    assert result.mismatched == 0
    assumed = {node.op for node in graph.nodes if set(node.outputs) & set(result.assumed)}
    assert assumed <= REAL


@pytest.mark.models
@pytest.mark.parametrize("name", SMALL)
def test_small_networks_are_exact_on_both_engines(models_folder: Path, name: str) -> None:
    check_network(models_folder / "models" / f"{name}.onnx", "pynq-z1", NETWORKS[name])


@pytest.mark.models
@pytest.mark.slow
@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_are_exact_on_every_config(models_folder: Path, name: str, config: str) -> None:
    check_network(models_folder / "models" / f"{name}.onnx", config, NETWORKS[name])


@pytest.mark.slow
@pytest.mark.parametrize("config", CONFIGS)
def test_seeded_resnet18_is_exact_on_every_config(tmp_path: Path, config: str) -> None:
    write_resnet18(tmp_path / "resnet18.onnx")
    check_network(tmp_path / "resnet18.onnx", config, BORDERS)
