"""Bounds of the embedded model, worked out by hand, and their units."""

from fractions import Fraction
from pathlib import Path

import pytest

from tilewright.compiler.bounds import floor_cycles, node_bounds
from tilewright.compiler.ir.graph import Graph
from tilewright.compiler.load import load
from tilewright.compiler.passes.bind_shapes import bind_shapes
from tilewright.hw.config import Config


@pytest.fixture(scope="module")
def lenet5(lenet5_path: Path) -> Graph:
    return bind_shapes(load(lenet5_path), {"N": 1})


def test_each_operator_is_bound_by_its_slowest_resource(lenet5: Graph) -> None:
    bounds = node_bounds(lenet5, Config.preset("pynq-z1"))
    costed = {name: (b.macs, b.cycles, b.limit) for name, b in bounds.items() if b.cycles}
    assert costed == {
        "n0_Conv": (6 * 28 * 28 * 25, 6 * 28 * 28 // 8, "write"),
        "n2_AveragePool": (0, 6 * 28 * 28 // 8, "read"),
        "n3_Conv": (16 * 10 * 10 * 6 * 25, 938, "compute"),
        "n5_AveragePool": (0, 16 * 10 * 10 // 8, "read"),
        "n6_Conv": (120 * 16 * 25, (16 * 25 + 120 * 16 * 25) // 8, "read"),
        "n9_Gemm": (120 * 84, (120 + 120 * 84) // 8, "read"),
        "n11_Gemm": (84 * 10, 116, "read"),
    }


def test_quantize_flatten_and_dequantize_cost_nothing(lenet5: Graph) -> None:
    bounds = node_bounds(lenet5, Config.preset("pynq-z1"))
    free = {name for name, bound in bounds.items() if bound.cycles == 0}
    assert free == {"image_QuantizeLinear", "n8_Flatten", "logits_DequantizeLinear"}


def test_the_floor_reads_weights_and_the_quantized_input_once(lenet5: Graph) -> None:
    weights = 6 * 25 + 16 * 6 * 25 + 120 * 16 * 25 + 120 * 84 + 84 * 10
    expected = -(-(weights + 28 * 28) // 8)
    assert floor_cycles(lenet5, Config.preset("pynq-z1")) == expected


def test_half_the_beats_double_what_memory_binds(lenet5: Graph) -> None:
    config = Config.preset("pynq-z1")
    full, half = (node_bounds(lenet5, config, beats=b)["n6_Conv"] for b in (1, Fraction(1, 2)))
    assert half.cycles == 2 * full.cycles
