"""Folding first convolutions: which are folded, how much that saves, and exactness."""

from pathlib import Path

import numpy as np
import pytest

from tilewright.compiler.ir.graph import Graph, Node, Value
from tilewright.compiler.pipeline import compile_graph
from tilewright.exact import execute
from tilewright.hw.config import Config
from tilewright.hw.encoding import decode
from tilewright.hw.isa import Gemm
from tilewright.runtime.executor import Executor
from tilewright.runtime.load import load_program
from tilewright.runtime.packing import Fold
from tilewright.runtime.program import Program
from tilewright.runtime.tensor import Quantization, TensorType
from tilewright.sim.functional import FunctionalEngine

Geometry = tuple[int, tuple[int, int], int, int]
"""Input channels, kernel, stride, pad."""

STEM: Geometry = (3, (7, 7), 2, 3)


def convolutions(size: int, *geometries: Geometry, dtype: str = "int8") -> Graph:
    """Convolutions of the same input x, with outputs y0, y1, …"""
    rng = np.random.default_rng(0)
    x = TensorType(dtype, (1, geometries[0][0], size, size), Quantization((0.5,), (3,)))
    values, constants, nodes = {"x": Value("x", x)}, {}, []
    for i, (channels, kernel, stride, pad) in enumerate(geometries):
        constants[f"w{i}"] = rng.integers(-128, 128, (20, channels, *kernel)).astype(np.int8)
        height, width = ((size + 2 * pad - k) // stride + 1 for k in kernel)
        unit = Quantization((0.01,), (0,))
        values[f"w{i}"] = Value(f"w{i}", TensorType("int8", constants[f"w{i}"].shape, unit))
        y = TensorType("int8", (1, 20, height, width), Quantization((3.0,), (-7,)))
        values[f"y{i}"] = Value(f"y{i}", y)
        attributes = {"strides": (stride,) * 2, "dilations": (1, 1), "pads": (pad,) * 4, "group": 1}
        nodes.append(Node("Conv", f"conv{i}", ("x", f"w{i}", ""), (f"y{i}",), attributes))
    outputs = tuple(f"y{i}" for i in range(len(nodes)))
    return Graph("convolutions", ("x",), outputs, tuple(nodes), values, constants)


def fold_in(program: Program) -> Fold | None:
    placement = program.tensor("x").placement
    assert placement is not None
    return placement.packing.fold


def num_uop_steps(program: Program) -> int:
    gemms = [task for task in decode(program.code) if isinstance(task, Gemm)]
    return sum(g.uop_count * g.extent_0 * g.extent_1 * g.extent_2 for g in gemms)


def expect_exact(graph: Graph, program: Program) -> None:
    kind = graph.type("x")
    info = np.iinfo(kind.dtype)
    rng = np.random.default_rng(1)
    x = rng.integers(info.min, info.max + 1, kind.static_shape).astype(kind.dtype)
    run = Executor(program, FunctionalEngine(program.config), all_tensors=True).run({"x": x})
    expected = execute(graph, {"x": x})
    for name in ("x", *program.outputs):
        np.testing.assert_array_equal(run.tensors[name], expected[name])


@pytest.mark.parametrize(
    ("geometry", "rows", "steps_a_tile"),
    [
        (STEM, 2, 4 * 3),
        ((1, (5, 5), 1, 2), 1, 5),
        ((3, (3, 3), 2, 1), 1, 3),
        ((3, (11, 11), 4, 2), 4, 3 * 9),
        ((3, (8, 8), 8, 0), 2, 4 * 3),
    ],
)
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_few_channels_fill_tiles_by_folding(
    geometry: Geometry, rows: int, steps_a_tile: int, dtype: str
) -> None:
    graph = convolutions(24, geometry, dtype=dtype)
    program = compile_graph(graph, Config.preset("pynq-z1"))
    fold = fold_in(program)
    assert fold is not None
    assert (fold.rows, fold.columns) == (rows, geometry[1][1])
    _, _, height, width = graph.type("y0").static_shape
    assert num_uop_steps(program) == steps_a_tile * height * width * 2
    expect_exact(graph, program)


@pytest.mark.parametrize("geometry", [(16, (3, 3), 1, 1), (3, (1, 1), 1, 0)])
def test_what_saves_nothing_is_not_folded(geometry: Geometry) -> None:
    program = compile_graph(convolutions(12, geometry), Config.preset("pynq-z1"))
    assert fold_in(program) is None


def test_readers_that_agree_share_a_fold_and_others_get_none() -> None:
    config = Config.preset("pynq-z1")
    for geometries, folded in (((STEM, STEM), True), ((STEM, (3, (5, 5), 1, 2)), False)):
        graph = convolutions(24, *geometries)
        program = compile_graph(graph, config)
        assert (fold_in(program) is not None) == folded
        expect_exact(graph, program)


def test_a_saved_program_keeps_its_fold(tmp_path: Path) -> None:
    program = compile_graph(convolutions(24, STEM), Config.preset("pynq-z1"))
    program.save(tmp_path / "p.twp")
    assert fold_in(load_program(tmp_path / "p.twp")) == fold_in(program) is not None
