"""Products of two activations, rank-3 products and means over rows, against the exact reference."""

import numpy as np
import pytest

from tilewright.compiler.ir.graph import Graph, Node, Value
from tilewright.compiler.ir.operators import infer_types
from tilewright.compiler.pipeline import compile_graph
from tilewright.exact import execute
from tilewright.hw.config import Config
from tilewright.runtime.device import Device
from tilewright.runtime.executor import Executor
from tilewright.runtime.program import Attribute
from tilewright.runtime.tensor import Quantization, TensorType
from tilewright.sim.functional import FunctionalEngine
from tilewright.sim.memory import MemoryModel
from tilewright.sim.rtl.engine import RtlEngine

CONFIGS = (
    "pynq-z1",
    "tiny",
    "block_in=8,block_out=32",
    "block_in=64,block_out=4,alu_lanes=4,output_lanes=4,axi_data_bits=512,accumulator_banks=4",
    "block_in=4,block_out=16,uop_kib=1,input_kib=1,weight_kib=8,accumulator_kib=8,parameter_kib=2",
)


def activation(rng: np.random.Generator, shape: tuple[int, ...]) -> TensorType:
    dtype = str(rng.choice(["int8", "uint8"]))
    info = np.iinfo(dtype)
    zero = int(rng.choice([info.min, info.max, int(rng.integers(info.min, info.max + 1))]))
    scale = float(np.float32(2.0 ** rng.uniform(-9, 2)))
    return TensorType(dtype, shape, Quantization((scale,), (zero,)))


def run(
    graph: Graph, config: Config, rng: np.random.Generator, engine: Device | None = None
) -> list[str]:
    """Compare all tensors with the reference; return why layers are on the host."""
    program = compile_graph(graph, config)
    feeds = {}
    for name in graph.input_names:
        kind = graph.type(name)
        info = np.iinfo(kind.dtype)
        feeds[name] = rng.integers(info.min, info.max + 1, kind.static_shape).astype(kind.dtype)
    engine = engine or FunctionalEngine(config, rng=rng)
    tensors = Executor(program, engine, all_tensors=True).run(feeds).tensors
    for name, expected in execute(graph, feeds).items():
        np.testing.assert_array_equal(tensors[name], expected, err_msg=name)
    return [layer.reason for layer in program.layers if layer.target == "cpu"]


def graph_of(node: Node, types: dict[str, TensorType], constants: dict[str, np.ndarray]) -> Graph:
    values = {name: Value(name, kind) for name, kind in types.items()}
    given = tuple(n for n in dict.fromkeys(node.inputs) if n and n not in constants)
    return Graph("random", given, ("y",), (node,), values, constants)


def activation_product(rng: np.random.Generator, config: Config) -> Graph:
    """A·B of rank 2 to 4, of sizes that fill weight tiles."""
    lanes = config.channel_lanes
    depth = int(rng.choice([config.block_in, lanes, 2 * lanes]))
    columns = int(rng.choice([config.block_out, lanes, 3 * lanes]))
    rows = int(rng.integers(1, 30))
    lead = tuple(int(d) for d in rng.integers(1, 4, int(rng.integers(0, 3))))
    types = {
        "a": activation(rng, (*lead, rows, depth)),
        "b": activation(rng, (*lead, depth, columns)),
        "y": activation(rng, (*lead, rows, columns)),
    }
    return graph_of(Node("MatMul", "product", ("a", "b", ""), ("y",)), types, {})


def rank_3_product(rng: np.random.Generator) -> Graph:
    depth, columns = (int(d) for d in rng.integers(1, 50, 2))
    shape = (int(rng.integers(1, 3)), int(rng.integers(1, 20)), depth)
    types = {"a": activation(rng, shape), "y": activation(rng, (*shape[:2], columns))}
    weights = rng.integers(-128, 128, (depth, columns)).astype(np.int8)
    types["w"] = TensorType("int8", weights.shape, Quantization((0.02,), (0,)))
    return graph_of(Node("MatMul", "product", ("a", "w", ""), ("y",)), types, {"w": weights})


def mean(rng: np.random.Generator) -> Graph:
    shape = tuple(int(d) for d in rng.integers(1, 20, int(rng.integers(3, 5))))
    axes = [(1,), (len(shape) - 1,), tuple(range(2, len(shape)))][int(rng.integers(0, 3))]
    attributes: dict[str, Attribute] = {"axes": axes, "keepdims": int(rng.integers(0, 2))}
    x = activation(rng, shape)
    (y,) = infer_types("ReduceMean", "mean", (x,), attributes)
    types = {"x": x, "y": activation(rng, tuple(int(d) for d in y.shape))}
    return graph_of(Node("ReduceMean", "mean", ("x",), ("y",), attributes), types, {})


@pytest.mark.parametrize("text", CONFIGS)
def test_products_of_activations_that_fill_tiles_are_on_the_accelerator(text: str) -> None:
    config = Config.parse(text)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        assert run(activation_product(rng, config), config, rng) == []


def test_products_of_activations_are_exact_on_the_rtl() -> None:
    config = Config.preset("tiny")
    engine = RtlEngine(config, MemoryModel())
    for seed in range(2000, 2008):
        rng = np.random.default_rng(seed)
        assert run(activation_product(rng, config), config, rng, engine) == []


def test_products_of_activations_with_tails_say_why_they_are_on_the_host() -> None:
    config, rng = Config.preset("pynq-z1"), np.random.default_rng(0)
    types = {name: activation(rng, (3, 3)) for name in ("a", "b", "y")}
    graph = graph_of(Node("MatMul", "product", ("a", "b", ""), ("y",)), types, {})
    assert run(graph, config, rng) == ["its 3 columns do not fill tiles of 16"]


@pytest.mark.parametrize("text", CONFIGS)
def test_products_of_rank_3_are_on_the_accelerator(text: str) -> None:
    config = Config.parse(text)
    for seed in range(10):
        rng = np.random.default_rng(seed)
        assert run(rank_3_product(rng), config, rng) == []


@pytest.mark.parametrize("text", [*CONFIGS, "batch=4,block_in=16,block_out=16"])
def test_means_are_exact(text: str) -> None:
    config = Config.parse(text)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        assert run(mean(rng), config, rng) == []
