"""Footprint and cost of many tilings of a layer at once, as arrays over a grid of tile sizes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.schedule.work import Work
from tilewright.hw.config import Config
from tilewright.hw.isa import INSTRUCTION_BYTES

Int64 = NDArray[np.int64]
Cycles = NDArray[np.floating[Any]]
Grid = Mapping[str, Int64]
"""Tile sizes by axis, one entry a tiling."""

AXES = ("n", "g", "h", "w", "o", "i", "k")
REDUCTIONS = ("i", "k")

LATENCY_CYCLES = 30
"""From a burst's request to its first beat, assumed: a DRAM of 20 and the pipelines around."""
STEP_CYCLES = 8
"""What a handover between engines costs, about."""
STORE_CYCLES = 6
"""What a STORE costs besides its tiles, about."""
INSTRUCTIONS_A_STEP = 4


@dataclass(frozen=True, slots=True)
class Placement:
    """The order of the outer loops, and where copies are placed among them.

    A copy at depth d is inside the first d loops of `order`, which ends in the reductions.
    `threads` = 2 gives every buffer that is allocated inside a loop a second copy.
    """

    order: tuple[str, ...]
    input_depth: int
    weight_depth: int
    parameter_depth: int
    threads: int
    fills_weights: bool = False
    """Weights that are loaded once come piece by piece, each when it is used first."""

    @property
    def output_depth(self) -> int:
        """Where accumulators are allocated: outside the reduction loops."""
        return len(self.order) - len(REDUCTIONS)

    @property
    def holds_input(self) -> bool:
        """Whether input tiles hold a whole reduction."""
        return self.input_depth < len(self.order)

    @property
    def steps_weights(self) -> bool:
        """Whether each reduction step loads its weights."""
        return self.weight_depth == len(self.order)


def extents_of(work: Work) -> dict[str, int]:
    """Return the size of each axis in tiles (k: kernel rows)."""
    return {
        "n": work.images,
        "g": work.groups,
        "h": work.out_size[0],
        "w": work.out_size[1],
        "o": work.out_blocks,
        "i": work.in_blocks,
        "k": work.window.kernel[0],
    }


def fits(work: Work, config: Config, grid: Grid, placement: Placement) -> NDArray[np.bool_]:
    """Return which tilings fit the scratchpads."""
    depths, outer = config.depths(), placement.output_depth
    runs = _runs(work, grid, placement)

    def copies(depth: int) -> Int64:
        return np.where(runs[depth] > 1, placement.threads, 1)

    blocks, row = _input_rows(work, grid, placement)
    inputs = blocks * row
    channel_tiles = grid["g"] * grid["o"] * work.out_subs
    outputs = channel_tiles * grid["n"] * grid["h"] * grid["w"]
    outputs = outputs + (channel_tiles if work.corrected else 0)
    rows = channel_tiles
    if placement.parameter_depth == 0:
        count = work.regions or work.groups * work.out_blocks * work.out_subs
        rows = np.full_like(channel_tiles, count)
    legal: NDArray[np.bool_] = rows * copies(placement.parameter_depth) <= depths["parameter"]
    if work.accumulates:
        weights = _weight_tiles(work, grid, placement)
        legal &= outputs <= depths["accumulator"] // copies(outer)
        legal &= inputs * copies(placement.input_depth) <= depths["input"]
        legal &= weights * copies(placement.weight_depth) <= depths["weight"]
    else:
        inner = max(outer, placement.input_depth)
        legal &= outputs + inputs <= depths["accumulator"] // copies(inner)
    return legal


def cost_cycles(work: Work, config: Config, grid: Grid, placement: Placement) -> Cycles:
    """Return about how many cycles a layer takes.

    That is the busiest of the three engines (their sum without virtual threads), the first
    load and the last store, which overlap with nothing, and a little for each step, so that of
    equals the one of fewer instructions is the cheapest.
    """
    runs = _runs(work, grid, placement)
    steps = runs[len(placement.order)]
    blocks, row = _input_rows(work, grid, placement)
    size = config.input_tile_bytes if work.accumulates else config.output_tile_bytes
    inputs = blocks * _row_cycles(row, size, config)
    weights = _weight_tiles(work, grid, placement) * max(
        1.0, config.weight_tile_bytes / config.axi_bytes
    )
    filled = _filled(work, grid, ("n", "g", "h", "w"))
    load = (
        runs[placement.input_depth] * inputs * filled
        + runs[placement.weight_depth] * weights * _filled(work, grid, ("g", "o"))
        + steps * (INSTRUCTIONS_A_STEP * INSTRUCTION_BYTES / config.axi_bytes)
    )
    out_rows = grid["n"] * grid["g"] * grid["o"] * grid["h"]
    last = out_rows * _stored_row_cycles(work, grid, config)
    filled = _filled(work, grid, ("n", "g", "o", "h", "w"))
    store = runs[placement.output_depth] * (last * filled + STORE_CYCLES)
    compute = _compute_cycles(work, config) + STEP_CYCLES * steps
    busiest = np.maximum(np.maximum(load, store), compute)
    overlapped = busiest if placement.threads > 1 else load + store + compute
    if placement.fills_weights:
        weights = _filling(work, grid, placement, weights, compute)
    total: Cycles = overlapped + inputs + weights + last + 2 * LATENCY_CYCLES + steps / 4
    return total


def _filling(
    work: Work, grid: Grid, placement: Placement, weights: Cycles, compute: Cycles
) -> Cycles:
    """What loading `weights` piece by piece adds.

    That is the first piece, and what computing on each of them once does not hide.
    """
    trips = _trips(work, grid)
    pieces = trips["g"] * trips["o"]
    passes = _product([trips[a] for a in placement.order if a not in ("g", "o")], grid)
    first = weights / pieces
    exposed: Cycles = first + np.maximum(0, (weights - first) - compute / passes)
    return exposed


def _runs(work: Work, grid: Grid, placement: Placement) -> list[Int64]:
    """How often a statement at each depth runs."""
    trips = _trips(work, grid)
    return [
        _product([trips[a] for a in placement.order[:depth]], grid)
        for depth in range(len(placement.order) + 1)
    ]


def _trips(work: Work, grid: Grid) -> Grid:
    return {a: -(-extent // grid[a]) for a, extent in extents_of(work).items()}


def _filled(work: Work, grid: Grid, axes: Sequence[str]) -> Cycles:
    """The part of all tiles of these axes that is not cut off at the tails."""
    trips, extents = _trips(work, grid), extents_of(work)
    ratio: Cycles = _product([np.full_like(grid[a], extents[a]) for a in axes], grid) / _product(
        [trips[a] * grid[a] for a in axes], grid
    )
    return ratio


def _product(factors: Sequence[Int64], grid: Grid) -> Int64:
    result = np.ones_like(grid["n"])
    for factor in factors:
        result = result * factor
    return result


def _input_rows(work: Work, grid: Grid, placement: Placement) -> tuple[Int64, Int64]:
    """Rows of an input tile that are apart in DRAM, and the tiles of one."""
    window, held = work.window, placement.holds_input
    taps = window.kernel[0] if held else grid["k"]
    rows = (grid["h"] - 1) * window.strides[0] + (taps - 1) * window.dilations[0] + 1
    rows = np.where(taps == 1, grid["h"], rows)
    columns = (grid["w"] - 1) * window.strides[1]
    columns = columns + (window.kernel[1] - 1) * window.dilations[1] + 1
    blocks = grid["n"] * grid["g"] * (work.in_blocks if held else grid["i"])
    if work.in_size == (1, 1):
        return grid["n"] * 1, blocks // grid["n"] * rows * columns * work.in_subs
    return blocks * rows, columns * work.in_subs


def _weight_tiles(work: Work, grid: Grid, placement: Placement) -> Int64:
    if not work.accumulates:
        return np.zeros_like(grid["n"])
    pair = work.out_subs * work.used_subs * work.parts
    if work.shared_weights:
        return np.full_like(grid["n"], pair)
    trips = _trips(work, grid)
    step = grid["i"] * grid["k"] * (work.window.kernel[1] * pair)
    if not placement.steps_weights:
        step = step * trips["i"] * trips["k"]
    if placement.weight_depth == 0:
        return step * (work.groups * work.out_blocks)
    return step * grid["g"] * grid["o"]


def _row_cycles(tiles: Int64, tile_bytes: int, config: Config) -> Cycles:
    """Cycles a row takes: a beat or a tile each, or what bursts in flight allow when short."""
    beats = tiles * max(1.0, tile_bytes / config.axi_bytes)
    bursts = np.ceil(tiles * tile_bytes / (config.axi_bytes * config.axi_burst_beats))
    in_flight = (LATENCY_CYCLES + beats / bursts) / config.axi_outstanding
    cycles: Cycles = np.maximum(beats, bursts * in_flight)
    return cycles


def _stored_row_cycles(work: Work, grid: Grid, config: Config) -> Cycles:
    tiles = grid["w"] * work.out_subs
    lanes = config.batch * config.block_out / config.output_lanes
    cycles: Cycles = np.maximum(tiles * lanes, _row_cycles(tiles, config.output_tile_bytes, config))
    return cycles


def _compute_cycles(work: Work, config: Config) -> float:
    out_tiles = work.images * work.groups * work.out_blocks * work.out_subs
    out_tiles *= work.out_size[0] * work.out_size[1]
    taps = work.window.kernel[0] * work.window.kernel[1]
    if work.accumulates:
        return float(out_tiles * work.in_blocks * work.used_subs * work.parts * taps)
    return out_tiles * (taps + 2) * config.batch * config.block_out / config.alu_lanes
