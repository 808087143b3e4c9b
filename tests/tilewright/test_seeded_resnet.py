"""The packaged ResNet-18: the model that onnxruntime's quantizer makes, without onnxruntime."""

import importlib.util
from collections import Counter
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import onnxruntime
import pytest

from tilewright.check import check
from tilewright.compiler.ir.graph import Graph
from tilewright.compiler.load import load
from tilewright.exact import execute
from tilewright.runtime.tensor import Quantization
from tilewright.seeded_resnet import quantized_resnet18, write_resnet18

TOOL = Path(__file__).parents[2] / "tools" / "calibrate_resnet.py"


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("resnet") / "resnet18.onnx"
    write_resnet18(path)
    return path


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("calibrate_resnet", TOOL)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def image(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((1, 3, 224, 224)).astype(np.float32)


def assert_same(one: Graph, other: Graph) -> int:
    """Compare two graphs from their outputs up, names apart; return how many nodes there are."""
    seen: set[tuple[str, str]] = set()
    pending = list(zip(one.output_names, other.output_names, strict=True))
    while pending:
        a, b = pending.pop()
        if (a, b) in seen:
            continue
        seen.add((a, b))
        assert one.type(a) == other.type(b), (a, b)
        if a in one.constants:
            np.testing.assert_array_equal(one.constants[a], other.constants[b])
        first, second = one.producer(a), other.producer(b)
        if first is None or second is None:
            assert first is second
            continue
        assert first.op == second.op
        assert first.attributes == second.attributes
        pending += [p for p in zip(first.inputs, second.inputs, strict=True) if p[0] or p[1]]
    return sum(a in {n for node in one.nodes for n in node.outputs} for a, _ in seen)


def test_the_network_is_resnet_18(path: Path) -> None:
    graph = load(path)
    once = ["QuantizeLinear", "MaxPool", "AveragePool", "Flatten", "MatMul", "DequantizeLinear"]
    expected = Counter(once, Conv=20, Add=8)
    assert Counter(node.op for node in graph.nodes) == expected
    weights = [graph.constants[n.inputs[1]] for n in graph.nodes if n.op in {"Conv", "MatMul"}]
    assert sum(w.size for w in weights) == 11_678_912
    assert graph.type("logits").shape == (1, 1000)
    assert all((np.abs(w.reshape(len(w), -1)).max(1) == 127).all() for w in weights[:-1])


def test_the_same_seed_gives_the_same_bytes(path: Path) -> None:
    assert quantized_resnet18().SerializeToString(deterministic=True) == path.read_bytes()


def test_the_file_is_valid_and_runs_in_onnxruntime(path: Path) -> None:
    onnx.checker.check_model(onnx.load(path), full_check=True)
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    (logits,) = session.run(None, {"image": image(0)})
    assert logits.shape == (1, 1000)
    assert len(np.unique(logits)) > 50


@pytest.mark.slow
def test_every_layer_agrees_with_onnxruntime(path: Path) -> None:
    graph = load(path)
    feeds = {"image": image(1)}
    result = check(graph, [feeds], [execute(graph, feeds)], layers=True)
    assert result.onnxruntime.failed == ()
    assert result.exact.assumed == ()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_it_is_what_onnxruntimes_quantizer_makes(tool: ModuleType, tmp_path: Path) -> None:
    images = np.random.default_rng(3).integers(0, 256, (2, 224, 224, 3)).astype(np.uint8)
    theirs = tool.quantized_by_onnxruntime(5, images)
    scales = {n: Quantization((s,), (z,)) for n, (s, z) in tool.activations(theirs).items()}
    paths = tmp_path / "theirs.onnx", tmp_path / "ours.onnx"
    for model, path in zip((theirs, quantized_resnet18(5, scales)), paths, strict=True):
        path.write_bytes(model.SerializeToString())
    assert assert_same(*map(load, paths)) == 34
