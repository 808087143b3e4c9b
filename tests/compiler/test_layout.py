"""Layouts: renaming of packed bytes by Reshape and Transpose, and what a program packs."""

import numpy as np
import pytest

from tilewright.compiler.ir.graph import Graph, Node, Value
from tilewright.compiler.ir.layout import (
    Layout,
    image_layout,
    packed_axes,
    reshaped,
    rows_layout,
    transposed,
    without_axes,
)
from tilewright.compiler.pipeline import compile_graph
from tilewright.exact import execute
from tilewright.hw.config import Config
from tilewright.runtime.executor import Executor
from tilewright.runtime.packing import Packing
from tilewright.runtime.tensor import Quantization, TensorType
from tilewright.sim.functional import FunctionalEngine

PYNQ = Config.preset("pynq-z1")
CONFIGS = ("pynq-z1", "tiny", "block_in=8,block_out=32", "batch=4,block_in=16,block_out=16")
HALF = Quantization((0.5,), (3,))


def packed(layout: Layout, x: np.ndarray, config: Config) -> np.ndarray:
    packing = Packing.of(layout.shape, "int8", config, factors=layout.factors, order=layout.order)
    bytes_ = packing.pack(x)
    np.testing.assert_array_equal(packing.unpack(bytes_).reshape(x.shape), x)
    return bytes_


def numbered(*shape: int) -> np.ndarray:
    return np.arange(int(np.prod(shape))).astype(np.int8).reshape(shape)


def test_a_transpose_names_the_same_bytes() -> None:
    x = numbered(2, 6, 3, 5)
    layout = image_layout(x.shape)
    assert layout is not None
    moved = transposed(layout, x.shape, (0, 2, 3, 1))
    y = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(packed(moved, y, PYNQ), packed(layout, x, PYNQ))


def test_a_reshape_that_splits_channels_names_the_same_bytes() -> None:
    x = numbered(1, 3, 5, 6)
    layout = Layout((3, 5, 6), ((), (2,), (0,), (1,)))
    split = reshaped(layout, (1, 45, 2))
    assert split == Layout((3, 5, 3, 2), ((), (2, 3), (0,), (1,)))
    np.testing.assert_array_equal(packed(split, x.reshape(1, 45, 2), PYNQ), packed(layout, x, PYNQ))


def test_a_reshape_across_unequal_axes_has_no_layout() -> None:
    layout = image_layout((4, 6))
    assert layout is not None
    assert reshaped(layout, (3, 8)) is None


def test_blocks_of_channels_lie_like_rows_of_the_axis_that_they_split() -> None:
    heads = reshaped(rows_layout((1, 16, 48)) or Layout((), ((), (), (), ())), (1, 16, 3, 16))
    assert heads is not None
    by_head = transposed(heads, (1, 16, 3, 16), (0, 2, 1, 3))
    wanted = rows_layout((1, 3, 16, 16))
    assert wanted is not None
    assert packed_axes(by_head, PYNQ) == packed_axes(wanted, PYNQ)
    assert packed_axes(by_head, Config.preset("tiny")) != packed_axes(wanted, Config.preset("tiny"))


def test_an_operand_that_is_broadcast_drops_its_axes() -> None:
    layout = image_layout((1, 8, 5, 7))
    assert layout is not None
    assert without_axes(layout, (1, 8, 5, 7), [2, 3]).shape == (1, 8, 1, 1)


@pytest.mark.parametrize("config", [PYNQ, Config.parse("batch=2,block_in=4,block_out=8")])
@pytest.mark.parametrize("seed", range(40))
def test_equal_packed_axes_are_equal_bytes(seed: int, config: Config) -> None:
    rng = np.random.default_rng(seed)
    factors = tuple(int(f) for f in rng.choice([2, 3, 4, 8], 4))
    layouts = [random_layout(rng, factors) for _ in range(60)]
    x = numbered(*factors)
    found: dict[tuple[object, ...], bytes] = {}
    for layout in layouts:
        bytes_ = packed(layout, x, config).tobytes()
        assert found.setdefault(packed_axes(layout, config), bytes_) == bytes_


def random_layout(rng: np.random.Generator, factors: tuple[int, ...]) -> Layout:
    order = [int(i) for i in rng.permutation(len(factors))]
    n, c, h = sorted(int(i) for i in rng.integers(0, len(order) + 1, 3))
    groups = order[:n], order[n:c], order[c:h], order[h:]
    return Layout(factors, tuple(tuple(g) for g in groups))  # type: ignore[arg-type]


def rows_graph() -> Graph:
    """A NHWC image through Transpose, Conv, Transpose and Reshape to rows times a matrix."""
    rng = np.random.default_rng(0)
    weight = rng.integers(-128, 128, (24, 3, 3, 3)).astype(np.int8)
    matrix = rng.integers(-128, 128, (24, 10)).astype(np.int8)
    shapes = {
        "x": (1, 8, 9, 3), "nchw": (1, 3, 8, 9), "conv": (1, 24, 8, 9),
        "nhwc": (1, 8, 9, 24), "rows": (1, 72, 24), "y": (1, 72, 10),
    }  # fmt: skip
    values = {name: Value(name, TensorType("int8", s, HALF)) for name, s in shapes.items()}
    values["w"] = Value("w", TensorType("int8", weight.shape, Quantization((0.01,), (0,))))
    values["m"] = Value("m", TensorType("int8", matrix.shape, Quantization((0.01,), (0,))))
    window = {"strides": (1, 1), "dilations": (1, 1), "pads": (1, 1, 1, 1), "group": 1}
    nodes = (
        Node("Transpose", "to_nchw", ("x",), ("nchw",), {"perm": (0, 3, 1, 2)}),
        Node("Conv", "conv", ("nchw", "w", ""), ("conv",), window),
        Node("Transpose", "to_nhwc", ("conv",), ("nhwc",), {"perm": (0, 2, 3, 1)}),
        Node("Reshape", "to_rows", ("nhwc",), ("rows",), {"shape": (1, 72, 24)}),
        Node("MatMul", "product", ("rows", "m", ""), ("y",)),
    )
    return Graph("rows", ("x",), ("y",), nodes, values, {"w": weight, "m": matrix})


@pytest.mark.parametrize("text", CONFIGS)
def test_transposes_and_reshapes_between_layers_cost_nothing(text: str) -> None:
    graph, config = rows_graph(), Config.parse(text)
    program = compile_graph(graph, config)
    rng = np.random.default_rng(1)
    feeds = {"x": rng.integers(-128, 128, (1, 8, 9, 3)).astype(np.int8)}
    tensors = Executor(program, FunctionalEngine(config), all_tensors=True).run(feeds).tensors
    for name, array in execute(graph, feeds).items():
        np.testing.assert_array_equal(tensors[name], array, err_msg=name)
    assert {layer.target for layer in program.layers} == {"accelerator"}
