"""Tilings of windowed layers, and the search for a good one with an analytic cost.

Only tilings that fit the scratchpads are considered.  The cost is the busiest of the three
engines, plus the first load and the last store, which overlap with nothing.
"""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.schedule.work import Work
from tilewright.hw.config import Config
from tilewright.hw.errors import CompileError
from tilewright.hw.isa import INSTRUCTION_BYTES

Grid = Mapping[str, NDArray[np.int64]]

AXES = ("n", "g", "h", "w", "o", "i", "k")
REDUCTIONS = ("i", "k")
ORDERS = (("n", "g", "h", "w", "o"), ("g", "o", "n", "h", "w"))
"""Outer loops from the outermost: inputs stay while channels change, or weights stay."""

MEMORY_LATENCY_CYCLES = 40
STEP_CYCLES = 8
"""What a handover between engines costs, about."""
MAX_CANDIDATES = 12


@dataclass(frozen=True, slots=True)
class Tiling:
    """Tile sizes by axis, the order of the outer loops, and where copies are placed.

    A copy at depth d is inside the first d outer loops.  `threads` = 2 gives every buffer that
    is allocated inside a loop a second copy.
    """

    sizes: Mapping[str, int]
    trips: Mapping[str, int]
    order: tuple[str, ...]
    input_depth: int
    weight_depth: int
    parameter_depth: int
    threads: int

    @property
    def output_depth(self) -> int:
        """Where accumulators are allocated: outside the reduction loops."""
        return len(self.order) - len(REDUCTIONS)


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


@dataclass(frozen=True, slots=True)
class _Choice:
    """What is tried besides tile sizes.

    `held_input`: input tiles hold a whole reduction; else each reduction step loads its part.
    `weights`: "all" are loaded once, "held" for each output block, or loaded each "step".
    """

    order: tuple[str, ...]
    held_input: bool
    weights: str
    threads: int


def search(work: Work, config: Config) -> Tiling | None:
    """Return the cheapest tiling that fits, double buffered if any such fits; None without.

    Ties go to the first in a fixed order, so the result is deterministic.
    """
    grid = _grid(work)
    for threads in (2, 1):
        choices = itertools.product(ORDERS, (True, False), ("all", "held", "step"), (threads,))
        found = [_best(work, config, grid, _Choice(*choice)) for choice in choices]
        legal = [pair for pair in found if pair is not None]
        if legal:
            return min(legal, key=lambda pair: pair[0])[1]
    return None


def _candidates(size: int) -> list[int]:
    tiles = sorted({-(-size // parts) for parts in range(1, size + 1)}, reverse=True)
    if len(tiles) <= MAX_CANDIDATES:
        return tiles
    picks = np.unique(np.round(np.geomspace(1, len(tiles), MAX_CANDIDATES)).astype(int)) - 1
    return [tiles[i] for i in picks]


def _grid(work: Work) -> dict[str, NDArray[np.int64]]:
    extents = extents_of(work)
    lists = [
        _candidates(extents[a]) if a != "k" else sorted({extents[a], 1}, reverse=True) for a in AXES
    ]
    axes = np.meshgrid(*[np.array(values, np.int64) for values in lists], indexing="ij")
    grid = {a: values.reshape(-1) for a, values in zip(AXES, axes, strict=True)}
    # Several images or groups share a tile only when all that they enclose is in it.
    plane = (grid["h"] == extents["h"]) & (grid["w"] == extents["w"])
    channels = (grid["i"] == extents["i"]) & (grid["o"] == extents["o"])
    legal = (plane | (grid["n"] == 1)) & (channels | (grid["g"] == 1))
    return {a: values[legal] for a, values in grid.items()}


def _best(work: Work, config: Config, grid: Grid, choice: _Choice) -> tuple[float, Tiling] | None:
    order, threads, weights = choice.order, choice.threads, choice.weights
    depths, loops = config.depths(), (*order, *REDUCTIONS)
    trips = {a: -(-extent // grid[a]) for a, extent in extents_of(work).items()}
    input_depth = 1 + max(order.index(a) for a in ("n", "g", "h", "w"))
    input_depth = input_depth if choice.held_input else len(loops)
    weight_depth = {"all": 0, "held": 1 + order.index("o"), "step": len(loops)}[weights]
    if work.shared_weights and weights != "all":
        return None
    runs = {d: _product([trips[a] for a in loops[:d]], grid) for d in range(len(loops) + 1)}
    input_tiles = _input_tiles(work, grid, held=choice.held_input)
    weight_tiles = _weight_tiles(work, grid, trips, weights)
    output_tiles = grid["n"] * grid["g"] * grid["o"] * work.out_subs * grid["h"] * grid["w"]
    channel_tiles = grid["g"] * grid["o"] * work.out_subs
    all_rows = work.regions or work.groups * work.out_blocks * work.out_subs
    whole = bool(work.regions) or 2 * all_rows <= depths["parameter"]
    parameter_depth = 0 if whole else len(order)
    rows = np.full_like(channel_tiles, all_rows) if whole else channel_tiles

    def copies(depth: int) -> NDArray[np.int64]:
        return np.where(runs[depth] > 1, threads, 1)

    outputs = output_tiles + (channel_tiles if work.corrected else 0)
    outputs = outputs if work.accumulates else outputs + input_tiles
    inner = len(order) if work.accumulates else input_depth
    bank = depths["accumulator"] // copies(max(inner, len(order)))
    legal = (outputs <= bank) & (rows * copies(parameter_depth) <= depths["parameter"])
    if work.accumulates:
        legal &= input_tiles * copies(input_depth) <= depths["input"]
        legal &= weight_tiles * copies(weight_depth) <= depths["weight"]
    if not legal.any():
        return None
    first = input_tiles * _load_cycles(work, config, "x") + weight_tiles * _load_cycles(
        work, config, "w"
    )
    load = (
        runs[input_depth] * input_tiles * _load_cycles(work, config, "x")
        + runs[weight_depth] * weight_tiles * _load_cycles(work, config, "w")
        + runs[len(loops)] * 4 * (INSTRUCTION_BYTES / config.axi_bytes)
    )
    last = output_tiles * _store_cycles(config)
    store = last * runs[len(order)]
    compute = _compute_cycles(work, config) + STEP_CYCLES * runs[len(loops)]
    busiest = np.maximum(np.maximum(load, store), compute)
    total = (busiest if threads > 1 else load + store + compute) + first + last
    total = np.where(legal, total + 2 * MEMORY_LATENCY_CYCLES, np.inf)
    index = int(np.argmin(total))
    tiling = Tiling(
        sizes={a: int(values[index]) for a, values in grid.items()},
        trips={a: int(values[index]) for a, values in trips.items()},
        order=loops,
        input_depth=input_depth,
        weight_depth=weight_depth,
        parameter_depth=parameter_depth,
        threads=threads,
    )
    return float(total[index]), tiling


def _product(factors: list[NDArray[np.int64]], grid: Grid) -> NDArray[np.int64]:
    result = np.ones_like(grid["n"])
    for factor in factors:
        result = result * factor
    return result


def _input_tiles(work: Work, grid: Grid, *, held: bool) -> NDArray[np.int64]:
    window = work.window
    taps = window.kernel[0] if held else grid["k"]
    rows = (grid["h"] - 1) * window.strides[0] + (taps - 1) * window.dilations[0] + 1
    rows = np.where(taps == 1, grid["h"], rows)
    columns = (grid["w"] - 1) * window.strides[1]
    columns = columns + (window.kernel[1] - 1) * window.dilations[1] + 1
    blocks = grid["g"] * (work.in_blocks if held else grid["i"])
    tiles: NDArray[np.int64] = grid["n"] * blocks * rows * columns * work.in_subs
    return tiles


def _weight_tiles(work: Work, grid: Grid, trips: Grid, placed: str) -> NDArray[np.int64]:
    if not work.accumulates:
        return np.zeros_like(grid["n"])
    pair = work.out_subs * work.used_subs * work.parts
    if work.shared_weights:
        return np.full_like(grid["n"], pair)
    step = grid["i"] * grid["k"] * work.window.kernel[1] * pair
    if placed != "step":
        step = step * trips["i"] * trips["k"]
    if placed == "all":
        return step * work.groups * work.out_blocks
    return step * grid["g"] * grid["o"]


def _load_cycles(work: Work, config: Config, what: str) -> float:
    if what == "w":
        return max(1.0, config.weight_tile_bytes / config.axi_bytes)
    size = config.input_tile_bytes if work.accumulates else config.output_tile_bytes
    return max(1.0, size / config.axi_bytes)


def _store_cycles(config: Config) -> float:
    lanes = config.batch * config.block_out / config.output_lanes
    return max(1.0, lanes, config.output_tile_bytes / config.axi_bytes)


def _compute_cycles(work: Work, config: Config) -> float:
    out_tiles = work.images * work.groups * work.out_blocks * work.out_subs
    out_tiles *= work.out_size[0] * work.out_size[1]
    taps = work.window.kernel[0] * work.window.kernel[1]
    if work.accumulates:
        return float(out_tiles * work.in_blocks * work.used_subs * work.parts * taps)
    return out_tiles * (taps + 2) * config.batch * config.block_out / config.alu_lanes


def no_tiling(work: Work, config: Config) -> CompileError:
    """Return the error for a layer whose smallest tile does not fit."""
    row = work.window.columns(1) * work.in_subs
    taps = 1 if work.shared_weights else work.window.kernel[1] * work.parts
    sums = work.out_subs * (2 if work.corrected else 1)
    needs = {"parameter": work.regions or work.out_subs, "accumulator": sums}
    if work.accumulates:
        needs |= {"input": row, "weight": taps * work.used_subs * work.out_subs}
    else:
        needs["accumulator"] += row
    depths = config.depths()
    memory = max(needs, key=lambda name: needs[name] / depths[name])
    return CompileError(
        f"its smallest tile needs {needs[memory]} tiles of {memory} memory,"
        f" there are {depths[memory]}"
    )
