"""Whole graphs: placement, the memory plan, determinism, the dump, lenet5 on four machines."""

from pathlib import Path

import numpy as np
import pytest

from tilewright.compiler.ir.graph import Graph, Node, Value
from tilewright.compiler.load import load
from tilewright.compiler.passes.bind_shapes import bind_shapes
from tilewright.compiler.pipeline import compile_graph
from tilewright.exact import execute
from tilewright.hw.config import Config
from tilewright.hw.isa import Segment
from tilewright.runtime.executor import Executor
from tilewright.runtime.program import Invoke
from tilewright.runtime.tensor import Quantization, TensorType
from tilewright.sim.functional import FunctionalEngine

CONFIGS = ("pynq-z1", "tiny", "block_in=8,block_out=32", "batch=4,block_in=16,block_out=16")
WINDOW = {"strides": (1, 1), "dilations": (1, 1), "pads": (1, 1, 1, 1), "group": 1}


@pytest.fixture
def lenet5(lenet5_path: Path) -> Graph:
    return bind_shapes(load(lenet5_path), {"N": 1})


def chain(length: int) -> Graph:
    """`length` 3×3 convolutions of 16 channels one after another; t0 is the input."""
    kind = TensorType("int8", (1, 16, 12, 12), Quantization((0.5,), (3,)))
    rng = np.random.default_rng(0)
    weight = rng.integers(-128, 128, (16, 16, 3, 3)).astype(np.int8)
    values = {f"t{i}": Value(f"t{i}", kind) for i in range(length + 1)}
    values["w"] = Value("w", TensorType("int8", weight.shape, Quantization((0.004,), (0,))))
    nodes = tuple(
        Node("Conv", f"conv_{i}", (f"t{i}", "w", ""), (f"t{i + 1}",), WINDOW) for i in range(length)
    )
    return Graph("chain", ("t0",), (f"t{length}",), nodes, values, {"w": weight})


@pytest.mark.parametrize("text", CONFIGS)
def test_lenet5_is_exact_at_every_tensor(lenet5: Graph, text: str) -> None:
    program = compile_graph(lenet5, Config.parse(text))
    rng = np.random.default_rng(1)
    feeds = {"image": rng.random((1, 1, 28, 28), np.float32)}
    engine = FunctionalEngine(program.config, rng=rng)
    tensors = Executor(program, engine, all_tensors=True).run(feeds).tensors
    expected = execute(lenet5, feeds)
    assert set(expected) == set(tensors)
    for name, array in expected.items():
        np.testing.assert_array_equal(tensors[name], array, err_msg=name)


def test_all_of_lenet5_between_its_float_borders_is_on_the_accelerator(lenet5: Graph) -> None:
    program = compile_graph(lenet5, Config.preset("pynq-z1"))
    host = [layer.op for layer in program.layers if layer.target == "cpu"]
    assert host == ["QuantizeLinear", "DequantizeLinear"]
    assert sum(isinstance(step, Invoke) for step in program.steps) == 1


def test_workspace_is_reused_and_both_plans_give_the_same() -> None:
    graph = chain(6)
    program = compile_graph(graph, Config.preset("pynq-z1"))
    one = program.tensor("t1").placement
    assert one is not None
    assert one.packing.num_bytes <= 4096
    assert program.segment_bytes[Segment.WORKSPACE] == 2 * 4096
    assert program.distinct_workspace_bytes == 5 * 4096
    x = np.random.default_rng(2).integers(-128, 128, (1, 16, 12, 12)).astype(np.int8)
    expected = execute(graph, {"t0": x})
    for all_tensors in (False, True):
        engine = FunctionalEngine(program.config, rng=np.random.default_rng(3))
        outputs = Executor(program, engine, all_tensors=all_tensors).run({"t0": x}).outputs
        np.testing.assert_array_equal(outputs["t6"], expected["t6"])


def test_the_same_input_gives_the_same_program(lenet5: Graph, tmp_path: Path) -> None:
    for name in ("a.twp", "b.twp"):
        compile_graph(lenet5, Config.preset("tiny")).save(tmp_path / name)
    assert (tmp_path / "a.twp").read_bytes() == (tmp_path / "b.twp").read_bytes()


def test_dump_writes_every_stage(lenet5: Graph, tmp_path: Path) -> None:
    tmp_path /= "made/for/it"
    compile_graph(lenet5, Config.preset("tiny"), dump=tmp_path)
    texts = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert sorted(texts) == [
        "1_graph.txt",
        "2_placement.txt",
        "3_loops.txt",
        "4_memory.txt",
        "5_instructions.txt",
    ]
    assert "gemm acc[" in texts["3_loops.txt"]
    assert texts["5_instructions.txt"].rstrip().endswith("finish")


def test_a_host_operator_between_layers_splits_the_region() -> None:
    graph = chain(2)
    nodes = (graph.nodes[0], Node("Neg", "neg", ("t1",), ("n",)), graph.nodes[1])
    nodes = (*nodes[:2], Node("Conv", "conv_1", ("n", "w", ""), ("t2",), WINDOW))
    values = {**graph.values, "n": Value("n", graph.type("t1"))}
    split = Graph("split", ("t0",), ("t2",), nodes, values, graph.constants)
    program = compile_graph(split, Config.preset("tiny"))
    assert [type(step).__name__ for step in program.steps] == [
        *("Pack", "Invoke", "Unpack", "HostCall", "Pack", "Invoke", "Unpack")
    ]
    assert program.layers[1].reason == "the accelerator has no Neg"
