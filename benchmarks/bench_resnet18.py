"""ResNet-18 on the RTL: its convolutions one by one, and the whole int8 network.

Layers C2 to C12 are numbered as in Moreau et al., A Hardware-Software Blueprint for Flexible
Deep Learning Specialization, 2019, table 1.  `VTA` is what that project's pipelined RTL
reaches of its peak: the best of 14 tilings a layer, 64-bit port, DRAM latency 20.
"""

import json
import os
import platform
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tilewright.api import compile as compile_model
from tilewright.api import report_of
from tilewright.compiler.ir.graph import Graph, Node, Value
from tilewright.compiler.pipeline import compile_graph
from tilewright.hw.config import Config
from tilewright.outputs import write_folder
from tilewright.report import Report, versions
from tilewright.runtime.device import Device
from tilewright.runtime.tensor import Quantization, TensorType
from tilewright.seeded_resnet import write_resnet18
from tilewright.sim.memory import MemoryModel
from tilewright.simulation import open_engine, simulate

RESULTS = Path(__file__).resolve().parents[1] / "build" / "bench"
REQUIRED_CYCLES = 9_000_000
REQUIRED_CPU_SECONDS = 60
REQUIRED_FIRST_LAYER_CYCLES = 750_000
REQUIRED_TEN_LAYER_CYCLES = 6_720_000
VTA_TEN_LAYER_CYCLES = 7_372_763
TOLERANCE = 0.02


@dataclass(frozen=True)
class Layer:
    """A square convolution, how often the network has it, and shares of peak in percent.

    `fused` is what an epilogue that costs no cycles of its own should give.
    """

    name: str
    size: int
    inputs: int
    outputs: int
    kernel: int
    stride: int
    count: int
    vta: float | None
    fused: float

    @property
    def output_size(self) -> int:
        return -(-self.size // self.stride)

    @property
    def macs(self) -> int:
        return self.output_size**2 * self.inputs * self.outputs * self.kernel**2


LAYERS = (
    Layer("C2", 56, 64, 64, 3, 1, 4, 84.8, 99.5),
    Layer("C3", 56, 64, 64, 1, 1, 0, None, 97.2),
    Layer("C4", 56, 64, 128, 3, 2, 1, 83.9, 99.0),
    Layer("C5", 56, 64, 128, 1, 2, 1, 35.4, 93.6),
    Layer("C6", 28, 128, 128, 3, 1, 3, 91.4, 99.5),
    Layer("C7", 28, 128, 256, 3, 2, 1, 90.2, 99.0),
    Layer("C8", 28, 128, 256, 1, 2, 1, 49.2, 89.3),
    Layer("C9", 14, 256, 256, 3, 1, 3, 95.0, 99.5),
    Layer("C10", 14, 256, 512, 3, 2, 1, 92.3, 98.9),
    Layer("C11", 14, 256, 512, 1, 2, 1, 57.3, 84.8),
    Layer("C12", 7, 512, 512, 3, 1, 3, 96.6, 99.4),
)


def convolution(layer: Layer) -> tuple[Graph, np.ndarray]:
    """One convolution with bias and requantization by channel, and an input for it."""
    rng = np.random.default_rng(0)
    shape = (layer.outputs, layer.inputs, layer.kernel, layer.kernel)
    scales = tuple(float(s) for s in np.float32(rng.uniform(0.0005, 0.001, layer.outputs)))
    constants = {
        "w": rng.integers(-128, 128, shape).astype(np.int8),
        "b": rng.integers(-9999, 9999, layer.outputs).astype(np.int32),
    }
    x_shape = (1, layer.inputs, layer.size, layer.size)
    y_shape = (1, layer.outputs, layer.output_size, layer.output_size)
    types = {
        "x": TensorType("int8", x_shape, Quantization((0.5,), (3,))),
        "y": TensorType("int8", y_shape, Quantization((0.5,), (-4,))),
        "w": TensorType("int8", shape, Quantization(scales, (0,) * layer.outputs, 0)),
        "b": TensorType("int32", (layer.outputs,)),
    }
    pad, stride = (layer.kernel - 1) // 2, layer.stride
    attributes = {
        "strides": (stride, stride),
        "dilations": (1, 1),
        "pads": (pad,) * 4,
        "group": 1,
    }
    node = Node("Conv", layer.name, ("x", "w", "b"), ("y",), attributes)
    values = {name: Value(name, kind) for name, kind in types.items()}
    graph = Graph(layer.name, ("x",), ("y",), (node,), values, constants)
    return graph, rng.integers(-128, 128, x_shape).astype(np.int8)


def cycles_of(layer: Layer, config: Config, device: Device) -> int:
    graph, x = convolution(layer)
    run = simulate(compile_graph(graph, config), [{"x": x}], device)
    counters = run.executions[0].invocations[0].result.counters
    assert counters is not None
    assert counters.cycles is not None
    return counters.cycles


def machine() -> dict[str, str | int | None]:
    return {
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "python": platform.python_version(),
    }


def test_every_layer_reaches_what_a_fused_epilogue_should_give(
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = Config.preset("pynq-z1")
    device = open_engine("rtl", config, memory=MemoryModel())
    rows = {layer.name: cycles_of(layer, config, device) for layer in LAYERS}
    network = sum(layer.count * rows[layer.name] for layer in LAYERS)
    table = [
        {
            "layer": layer.name,
            "gemm_cycles": layer.macs // config.peak_macs_per_cycle,
            "cycles": rows[layer.name],
            "percent_of_peak": 100 * layer.macs / config.peak_macs_per_cycle / rows[layer.name],
            "fused_percent": layer.fused,
            "vta_percent": layer.vta,
        }
        for layer in LAYERS
    ]
    result = {
        "machine": machine(),
        "versions": versions(),
        "config": config.name,
        "memory": MemoryModel().to_dict(),
        "layers": table,
        "ten_layer_cycles": network,
        "vta_ten_layer_cycles": VTA_TEN_LAYER_CYCLES,
    }
    write_folder(RESULTS, {"resnet18-layers.json": json.dumps(result, indent=1).encode()})
    with capsys.disabled():
        print("\nlayer  GEMM cycles   cycles  of peak  fused    VTA")
        for row in table:
            vta = "     –" if row["vta_percent"] is None else f"{row['vta_percent']:5.1f}%"
            print(
                f"{row['layer']:5} {row['gemm_cycles']:12,} {row['cycles']:8,}"
                f" {row['percent_of_peak']:7.1f}% {row['fused_percent']:5.1f}% {vta}"
            )
        print(f"as a network: {network:,} cycles, VTA {VTA_TEN_LAYER_CYCLES:,}")
    for row in table:
        assert row["percent_of_peak"] >= row["fused_percent"] * (1 - TOLERANCE), row
    assert network <= REQUIRED_TEN_LAYER_CYCLES


def test_the_whole_network_within_its_budget(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_resnet18(tmp_path / "resnet18.onnx")
    program = compile_model(tmp_path / "resnet18.onnx").program
    memory = MemoryModel()
    device = open_engine("rtl", program.config, memory=memory)
    image = np.random.default_rng(0).standard_normal((1, 3, 224, 224)).astype(np.float32)
    report = report_of(program, simulate(program, [{"image": image}], device), "rtl", memory)
    result = {**report.to_dict(), "machine": machine()}
    write_folder(RESULTS, {"resnet18.json": json.dumps(result, indent=1).encode()})
    with capsys.disabled():
        print_network(report)
    assert report.cycles is not None
    assert report.cycles <= REQUIRED_CYCLES
    assert report.cpu_seconds <= REQUIRED_CPU_SECONDS
    first = next(layer for layer in report.layers if layer.op == "Conv")
    assert first.cycles is not None
    assert first.cycles <= REQUIRED_FIRST_LAYER_CYCLES


def print_network(report: Report) -> None:
    print("\nlayer                        cycles     bound  bound / cycles")
    for layer in report.layers:
        if layer.cycles:
            share = layer.bound_cycles / layer.cycles
            print(f"{layer.name:25} {layer.cycles:9,} {layer.bound_cycles:9,} {100 * share:9.1f}%")
    assert report.cycles is not None
    assert report.cycles_per_cpu_second is not None
    print(
        f"{report.cycles:,} cycles, {100 * report.bound_cycles / report.cycles:.1f}% of the bound,"
        f" {report.cpu_seconds:.1f} CPU-s at {report.cycles_per_cpu_second:,.0f} cycles a second"
    )
