"""Tilings of windowed layers: the search among those that fit for the one that costs least."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tilewright.compiler.schedule.cost import (
    AXES,
    REDUCTIONS,
    Grid,
    Placement,
    cost_cycles,
    extents_of,
    fits,
)
from tilewright.compiler.schedule.work import Work
from tilewright.hw.config import Config
from tilewright.hw.errors import CompileError

ORDERS = (("n", "g", "h", "w", "o"), ("g", "o", "n", "h", "w"))
"""Outer loops from the outermost: inputs stay while channels change, or weights stay."""

MAX_CANDIDATES = 12
"""Tile sizes tried an axis."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """Tile sizes and iterations of the outer loops by axis, and where copies are placed."""

    sizes: Mapping[str, int]
    trips: Mapping[str, int]
    placement: Placement


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


def _grid(work: Work) -> Grid:
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
    if work.shared_weights and choice.weights != "all":
        return None
    order, loops = choice.order, (*choice.order, *REDUCTIONS)
    input_depth = 1 + max(order.index(a) for a in ("n", "g", "h", "w"))
    all_rows = work.regions or work.groups * work.out_blocks * work.out_subs
    whole = bool(work.regions) or 2 * all_rows <= config.depths()["parameter"]
    placement = Placement(
        order=loops,
        input_depth=input_depth if choice.held_input else len(loops),
        weight_depth={"all": 0, "held": 1 + order.index("o"), "step": len(loops)}[choice.weights],
        parameter_depth=0 if whole else len(order),
        threads=choice.threads,
        fills_weights=choice.weights == "all" and not work.shared_weights,
    )
    cost = np.where(
        fits(work, config, grid, placement), cost_cycles(work, config, grid, placement), np.inf
    )
    index = int(np.argmin(cost))
    if not np.isfinite(cost[index]):
        return None
    sizes = {a: int(values[index]) for a, values in grid.items()}
    trips = {a: -(-extent // sizes[a]) for a, extent in extents_of(work).items()}
    return float(cost[index]), Tiling(sizes, trips, placement)


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
