"""LeNet-5 in both quantized forms: RTL = functional = int64 oracle, and close to onnxruntime."""

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import tilewright as tw
from tilewright.check import check_onnxruntime
from tilewright.demo import IMAGES
from tilewright.sim.memory import MemoryModel
from tilewright.simulation import open_engine, simulate

FORMS = ("lenet5_int8_qdq_s8", "lenet5_int8_qop_u8")
CONFIGS = ("tiny", "pynq-z1", "block_in=8,block_out=32,output_lanes=8", "batch=4")
ACCELERATED = {"Conv": 3, "AveragePool": 2, "MatMul": 2}


def _load_oracle() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "int64_oracle", Path(__file__).with_name("int64_oracle.py")
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ORACLE = _load_oracle()


def _images(count: int) -> np.ndarray:
    with np.load(IMAGES) as data:
        return data["x"][:count, None].astype(np.float32) / np.float32(255)


def check_engines(path: Path, config: str, count: int) -> None:
    """Compare every logit of `count` images: RTL, functional engine, oracle."""
    executable = tw.compile(tw.load(path), config=config)
    samples = [{"image": image[None]} for image in _images(count)]
    expected = ORACLE.Oracle(path).run(_images(count))
    traffic = []
    for name in ("functional", "rtl"):
        engine = open_engine(name, executable.config, memory=MemoryModel())
        served = simulate(executable.program, samples, engine)
        got = np.concatenate([each.outputs["logits"] for each in served.executions])
        np.testing.assert_array_equal(got, expected, err_msg=f"{path.stem} on {name}, {config}")
        results = [each.invocations[0].result for each in served.executions]
        traffic.append([(result.bytes_read, result.bytes_written) for result in results])
    assert traffic[0] == traffic[1]


@pytest.mark.parametrize("config", CONFIGS[:2])
def test_embedded_lenet5_equals_the_oracle(lenet5_path: Path, config: str) -> None:
    check_engines(lenet5_path, config, 10)


@pytest.mark.models
@pytest.mark.parametrize("form", FORMS)
def test_ten_images_equal_the_oracle(models_folder: Path, form: str) -> None:
    check_engines(models_folder / "models" / f"{form}.onnx", "pynq-z1", 10)


@pytest.mark.models
@pytest.mark.slow
@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("form", FORMS)
def test_a_hundred_images_equal_the_oracle_on_every_config(
    models_folder: Path, form: str, config: str
) -> None:
    check_engines(models_folder / "models" / f"{form}.onnx", config, 100)


@pytest.mark.models
@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_thousand_images_equal_the_oracle(models_folder: Path, form: str) -> None:
    check_engines(models_folder / "models" / f"{form}.onnx", "pynq-z1", 1000)


@pytest.mark.models
@pytest.mark.parametrize("form", FORMS)
def test_layers_agree_with_onnxruntime(models_folder: Path, form: str) -> None:
    graph = tw.load(models_folder / "models" / f"{form}.onnx").ir
    images = _images(1000)
    outputs = ORACLE.Oracle(models_folder / "models" / f"{form}.onnx").run(images)
    result = check_onnxruntime(graph, [{"image": images}], [{"logits": outputs}], layers=True)
    assert result.compared > 1_000_000
    assert result.max_abs_error <= 1  # every value, so more than the 99.9 % asked for
    assert result.top1_agreement >= 0.995


def test_every_layer_of_the_embedded_lenet5_runs_on_the_accelerator(lenet5_path: Path) -> None:
    layers = tw.compile(tw.load(lenet5_path)).program.layers
    placed = [(layer.op, layer.target) for layer in layers]
    for op, count in ACCELERATED.items():
        assert placed.count((op, "accelerator")) == count
    host = {op for op, target in placed if target == "cpu"}
    assert host == {"QuantizeLinear", "DequantizeLinear"}
