"""Random movement of elements on several machines against the exact reference."""

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

CONFIGS = (
    "pynq-z1",
    "tiny",
    "block_in=8,block_out=32",
    "batch=4,block_in=16,block_out=16",
    "block_in=64,block_out=4,alu_lanes=4,output_lanes=4,axi_data_bits=512,accumulator_banks=4",
)
KINDS = ("Concat", "Concat", "Expand", "Gather", "Reshape", "Slice", "Transpose")
POINT: dict[str, Attribute] = {
    "kernel_shape": (1, 1),
    "strides": (1, 1),
    "dilations": (1, 1),
    "pads": (0, 0, 0, 0),
}

UNALIKE = "its shapes do not split into common factors"
IMAGES = "images move inside a tile"
"""Why a move may stay on the host: always, and where a tile has several images."""


def activation(rng: np.random.Generator, shape: tuple[int, ...]) -> TensorType:
    dtype = str(rng.choice(["int8", "uint8"]))
    info = np.iinfo(dtype)
    scale = float(np.float32(2.0 ** rng.uniform(-4, 2)))
    return TensorType(
        dtype, shape, Quantization((scale,), (int(rng.integers(info.min, info.max + 1)),))
    )


def random_move(rng: np.random.Generator) -> Graph:
    """A 1×1 pool (images in order), a move, and perhaps a pool again, which needs them so."""
    kind = str(rng.choice(KINDS))
    batch = int(rng.choice([1, 1, 1, 3]))
    shape = (batch, int(rng.choice([1, 3, 4, 8, 12, 16, 24, 40])), *map(int, rng.integers(1, 9, 2)))
    types, nodes = {"x0": activation(rng, shape)}, []
    constants: dict[str, np.ndarray] = {}
    inputs, attributes = ["m0"], dict[str, Attribute]()
    if kind == "Concat":
        axis = int(rng.choice([0, 1, 1, 1, 2, 3]))
        attributes["axis"] = axis
        for i in range(1, int(rng.integers(2, 4))):
            size = int(rng.integers(1, 30)) if axis == 1 else int(rng.integers(1, 7))
            part = tuple(size if j == axis else d for j, d in enumerate(shape))
            types[f"x{i}"] = activation(rng, part)
            inputs.append(f"m{i}")
    elif kind == "Expand":
        axis = int(rng.integers(0, 4))
        target = tuple(int(rng.integers(1, 9)) if d == 1 else d for d in shape)
        attributes["shape"] = target if axis else (2, *target)
    elif kind == "Gather":
        axis = int(rng.integers(0, 4))
        count = int(rng.integers(1, 6))
        constants["i"] = rng.integers(-shape[axis], shape[axis], count).astype(np.int64)
        inputs.append("i")
        attributes["axis"] = axis
        types["i"] = TensorType("int64", (count,))
    elif kind == "Reshape":
        attributes["shape"] = reshape_target(rng, shape)
    elif kind == "Slice":
        axes = sorted(int(a) for a in rng.choice(4, int(rng.integers(1, 3)), replace=False))
        starts = [int(rng.integers(0, shape[a])) for a in axes]
        ends = [int(rng.integers(s + 1, shape[a] + 1)) for s, a in zip(starts, axes, strict=True)]
        attributes |= {
            "axes": tuple(axes),
            "starts": tuple(starts),
            "ends": tuple(ends),
            "steps": tuple(int(s) for s in rng.integers(1, 4, len(axes))),
        }
    else:
        attributes["perm"] = tuple(int(i) for i in rng.permutation(4))
    given = [name for name in types if name.startswith("x")]
    for i, name in enumerate(given):
        types[f"m{i}"] = types[name]
        nodes.append(Node("MaxPool", f"in_{i}", (name,), (f"m{i}",), POINT))
    alike = [replace(types[n], dtype=types["m0"].dtype) if n != "i" else types[n] for n in inputs]
    (moved,) = infer_types(kind, kind, tuple(alike), attributes)
    quantized = types["m0"]
    if kind == "Concat":
        quantized = activation(rng, moved.shape) if rng.random() < 0.7 else types["m0"]
    types["y"] = TensorType(quantized.dtype, moved.shape, quantized.quantization)
    nodes.append(Node(kind, "move", tuple(inputs), ("y",), attributes))
    result = "y"
    if len(moved.shape) == 4 and rng.random() < 0.6:
        types["z"], result = types["y"], "z"
        nodes.append(Node("MaxPool", "out", ("y",), ("z",), POINT))
    values = {name: Value(name, t) for name, t in types.items()}
    return Graph("random", tuple(given), (result,), tuple(nodes), values, constants)


def reshape_target(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with some neighbouring axes joined, and one split."""
    target = [shape[0]]
    for size in shape[1:]:
        if rng.random() < 0.4:
            target[-1] *= size
        else:
            target.append(size)
    at = int(rng.integers(0, len(target)))
    part = int(rng.choice([d for d in range(1, target[at] + 1) if target[at] % d == 0]))
    return (*target[:at], part, target[at] // part, *target[at + 1 :])


def expect_exact(graph: Graph, program: Program, rng: np.random.Generator, engine: Device) -> None:
    feeds = {}
    for name in graph.input_names:
        kind = graph.type(name)
        info = np.iinfo(kind.dtype)
        feeds[name] = rng.integers(info.min, info.max + 1, kind.static_shape).astype(kind.dtype)
    outputs = Executor(program, engine).run(feeds).outputs
    for name, expected in execute(graph, feeds).items():
        if name in graph.output_names:
            np.testing.assert_array_equal(outputs[name], expected)


def check_seed(seed: int, config: Config, engine: Device | None = None) -> None:
    rng = np.random.default_rng(seed)
    graph = random_move(rng)
    program = compile_graph(graph, config)
    reasons = {layer.reason for layer in program.layers if layer.target == "cpu"}
    allowed = {UNALIKE, IMAGES} if config.batch > 1 else {UNALIKE}
    assert reasons <= allowed, f"seed {seed}: {reasons}"
    expect_exact(graph, program, rng, engine or FunctionalEngine(config, rng=rng))


@pytest.mark.parametrize("text", CONFIGS)
def test_random_moves_are_exact(text: str) -> None:
    for seed in range(40):
        check_seed(seed, Config.parse(text))


def test_random_moves_are_exact_on_the_rtl() -> None:
    config = Config.preset("tiny")
    engine = RtlEngine(config, MemoryModel())
    for seed in range(2000, 2012):
        check_seed(seed, config, engine)


@pytest.mark.slow
@pytest.mark.parametrize("text", CONFIGS)
def test_many_random_moves_are_exact(text: str) -> None:
    for seed in range(1000, 1300):
        check_seed(seed, Config.parse(text))
