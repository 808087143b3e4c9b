"""Random layers on several machines against the exact reference, engines taking random turns."""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tilewright.compiler.ir.graph import Graph, Node, Value
from tilewright.compiler.ir.operators import infer_types
from tilewright.compiler.pipeline import compile_graph
from tilewright.exact import execute
from tilewright.hw.config import Config
from tilewright.runtime.device import Device
from tilewright.runtime.executor import Executor
from tilewright.runtime.program import Attribute, Program
from tilewright.runtime.tensor import Quantization, TensorType
from tilewright.sim.functional import FunctionalEngine
from tilewright.sim.memory import MemoryModel
from tilewright.sim.rtl.engine import RtlEngine

Axes = tuple[int, ...]

CONFIGS = (
    "pynq-z1",
    "tiny",
    "block_in=8,block_out=32",
    "batch=4,block_in=16,block_out=16",
    "block_in=64,block_out=4,alu_lanes=4,output_lanes=4,axi_data_bits=512,accumulator_banks=4",
    "batch=2,block_in=4,block_out=16,uop_kib=1,input_kib=1,weight_kib=8,accumulator_kib=4,"
    "parameter_kib=2,axi_data_bits=32,queue_depth=2",
)
KINDS = ("Conv", "Conv", "MatMul", "AveragePool", "MaxPool", "Requantize")


def scale_of(rng: np.random.Generator) -> float:
    return float(np.float32(2.0 ** rng.uniform(-9, 2)))


def activation(rng: np.random.Generator, shape: tuple[int, ...], dtype: str = "") -> TensorType:
    dtype = dtype or str(rng.choice(["int8", "uint8"]))
    info = np.iinfo(dtype)
    return TensorType(
        dtype, shape, Quantization((scale_of(rng),), (int(rng.integers(info.min, info.max + 1)),))
    )


def window_attributes(rng: np.random.Generator, kernel: tuple[int, int]) -> dict[str, Attribute]:
    return {
        "kernel_shape": kernel,
        "strides": tuple(map(int, rng.integers(1, 4, 2))),
        "dilations": tuple(map(int, rng.integers(1, 3, 2))),
        "pads": tuple(int(rng.integers(0, kernel[i % 2])) for i in range(4)),
    }


def image_for(rng: np.random.Generator, attributes: dict[str, Attribute]) -> tuple[int, int]:
    """A size that the window fits."""
    kernel, dilations = attributes["kernel_shape"], attributes["dilations"]
    low = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    return int(low[0] + rng.integers(0, 12)), int(low[1] + rng.integers(0, 12))


def weights_of(
    rng: np.random.Generator, shape: tuple[int, ...], axis: int
) -> tuple[np.ndarray, TensorType]:
    """Weights with one scale and zero point, or one a channel of `axis`."""
    dtype = str(rng.choice(["int8", "int8", "uint8"]))
    info = np.iinfo(dtype)
    array = rng.integers(info.min, info.max + 1, shape).astype(dtype)
    count = shape[axis] if rng.random() < 0.5 else 1
    zero = [int(z) for z in rng.integers(info.min, info.max + 1, count)]
    zero = zero if rng.random() < 0.5 else [0] * count
    scales = tuple(scale_of(rng) for _ in range(count))
    q = Quantization(scales, tuple(zero), axis if count > 1 else None)
    return array, TensorType(dtype, shape, q)


def clamp(rng: np.random.Generator, dtype: str) -> dict[str, Attribute]:
    info = np.iinfo(dtype)
    low, high = sorted(int(v) for v in rng.integers(info.min, info.max + 1, 2))
    return {"low": low, "high": high} if rng.random() < 0.5 else {}


def random_graph(rng: np.random.Generator) -> Graph:
    """One operator on random tensors, float nowhere."""
    kind = str(rng.choice(KINDS))
    batch, constants = int(rng.integers(1, 6)), {}
    types: dict[str, TensorType] = {}
    attributes: dict[str, Attribute] = {}
    channels = int(rng.choice([1, 3, 4, 8, 16, 17, 24, 40]))
    if kind == "MatMul":
        x = activation(rng, (batch, channels))
        outputs = int(rng.integers(1, 50))
        constants["w"], types["w"] = weights_of(rng, (channels, outputs), 1)
    elif kind == "Requantize":
        x = activation(rng, (batch, channels, *map(int, rng.integers(1, 12, 2))))
    else:
        kernel = (int(rng.integers(1, 5)), int(rng.integers(1, 5)))
        attributes = window_attributes(rng, kernel)
        x = activation(rng, (batch, channels, *image_for(rng, attributes)))
    if kind == "Conv":
        group = int(rng.choice([g for g in (1, 1, 2, 4, channels) if channels % g == 0]))
        outputs = group * int(rng.integers(1, math.ceil(40 / group) + 1))
        attributes |= {"group": group}
        shape = (outputs, channels // group, *kernel)
        constants["w"], types["w"] = weights_of(rng, shape, 0)
    if kind == "AveragePool":
        attributes["count_include_pad"] = int(rng.integers(0, 2))
    inputs = ["x"]
    if kind in ("Conv", "MatMul"):
        inputs.append("w")
        if rng.random() < 0.7:
            constants["b"] = rng.integers(-(2**20), 2**20, outputs).astype(np.int32)
            types["b"] = TensorType("int32", (outputs,))
            inputs.append("b")
        else:
            inputs.append("")
    operands = tuple(types.get(name, x) if name else None for name in inputs)
    (result,) = infer_types(kind, kind, operands, attributes)
    if kind in ("Conv", "MatMul") and rng.random() < 0.2:
        y = TensorType("int32", result.shape)
    elif kind == "MaxPool":
        y = TensorType(x.dtype, result.shape, x.quantization)
    else:
        y = activation(rng, result.shape)
    if y.dtype != "int32":
        attributes |= clamp(rng, y.dtype)
    types |= {"x": x, "y": y}
    values = {name: Value(name, t) for name, t in types.items()}
    node = Node(kind, "layer", tuple(inputs), ("y",), attributes)
    return Graph("random", ("x",), ("y",), (node,), values, constants)


def broadcast_shape(rng: np.random.Generator, shape: tuple[int, ...], axes: Axes) -> Axes:
    """A shape that broadcasts to `shape`, with 1 along some of the axes."""
    chosen = [axis for axis in axes if rng.random() < 0.4]
    reduced = tuple(1 if i in chosen else size for i, size in enumerate(shape))
    lead = next((i for i, size in enumerate(reduced) if size > 1), len(shape))
    return reduced[int(rng.integers(0, lead + 1)) :]


def random_elementwise(rng: np.random.Generator) -> Graph:
    """Add, Sub or Mul of two tensors, of one with itself, or of one and a constant."""
    kind = str(rng.choice(["Add", "Add", "Sub", "Mul"]))
    rank = int(rng.integers(1, 5))
    channels = int(rng.choice([1, 3, 4, 8, 16, 17, 24, 40]))
    shape = (int(rng.integers(1, 6)), channels, *map(int, rng.integers(1, 10, 2)))
    shape = (channels,) if rank == 1 else shape[:rank]
    types, constants, inputs = {"x": activation(rng, shape)}, {}, ["x", "b"]
    form = str(rng.choice(["same", "constant", "other", "other"]))
    if form == "same":
        inputs = ["x", "x"]
    elif form == "constant":
        types["b"] = activation(rng, broadcast_shape(rng, shape, tuple(range(rank))))
        constants["b"] = random_array(rng, types["b"])
    else:
        axes = tuple(range(2, rank)) if rank > 1 else ()
        types["b"] = activation(rng, broadcast_shape(rng, shape, axes))
        if len(types["b"].shape) != rank:
            types["b"] = replace(types["b"], shape=shape)
    inputs = inputs[:: int(rng.choice([1, -1]))]
    types["y"] = activation(rng, shape)
    attributes = clamp(rng, types["y"].dtype)
    values = {name: Value(name, t) for name, t in types.items()}
    node = Node(kind, "layer", tuple(inputs), ("y",), attributes)
    given = tuple(name for name in dict.fromkeys(inputs) if name not in constants)
    return Graph("random", given, ("y",), (node,), values, constants)


def random_array(rng: np.random.Generator, kind: TensorType) -> np.ndarray:
    info = np.iinfo(kind.dtype)
    return rng.integers(info.min, info.max + 1, kind.static_shape).astype(info.dtype)


def expect_exact(graph: Graph, program: Program, rng: np.random.Generator, engine: Device) -> None:
    feeds = {name: random_array(rng, graph.type(name)) for name in graph.input_names}
    outputs = Executor(program, engine).run(feeds).outputs
    expected = execute(graph, feeds)
    np.testing.assert_array_equal(outputs["y"], expected["y"])


def check_seed(
    seed: int,
    config: Config,
    make: Callable[[np.random.Generator], Graph] = random_graph,
    engine: Device | None = None,
) -> None:
    rng = np.random.default_rng(seed)
    graph = make(rng)
    program = compile_graph(graph, config)
    assert program.layers[0].target == "accelerator", f"seed {seed}: {program.layers[0].reason}"
    expect_exact(graph, program, rng, engine or FunctionalEngine(config, rng=rng))


@pytest.mark.parametrize("text", CONFIGS)
def test_random_layers_are_exact(text: str) -> None:
    for seed in range(25):
        check_seed(seed, Config.parse(text))


@pytest.mark.parametrize("text", CONFIGS)
def test_random_elementwise_layers_are_exact(text: str) -> None:
    for seed in range(25):
        check_seed(seed, Config.parse(text), random_elementwise)


def test_random_elementwise_layers_are_exact_on_the_rtl() -> None:
    config = Config.preset("tiny")
    engine = RtlEngine(config, MemoryModel())
    for seed in range(2000, 2012):
        check_seed(seed, config, random_elementwise, engine)


def test_a_layer_whose_smallest_tile_does_not_fit_runs_on_the_host() -> None:
    config = Config.parse(CONFIGS[-1]).replace(weight_kib=1)
    graph = random_graph(np.random.default_rng(1000))
    (layer,) = compile_graph(graph, config).layers
    assert (layer.target, layer.reason) == (
        "cpu",
        "its smallest tile needs 32 tiles of weight memory, there are 16",
    )


@pytest.mark.slow
@pytest.mark.parametrize("text", CONFIGS)
@pytest.mark.parametrize("first", range(1000, 1400, 100))
def test_many_random_layers_are_exact(text: str, first: int) -> None:
    for seed in range(first, first + 100):
        check_seed(seed, Config.parse(text))


@pytest.mark.slow
@pytest.mark.parametrize("text", CONFIGS)
def test_many_random_elementwise_layers_are_exact(text: str) -> None:
    for seed in range(1000, 1200):
        check_seed(seed, Config.parse(text), random_elementwise)
