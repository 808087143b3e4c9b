"""Plots of a run as PNG: cycles by layer, the roofline, and what each engine did when."""

import io
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from tilewright.hw.encoding import decode
from tilewright.hw.errors import SimulationError
from tilewright.hw.isa import Engine, Load, Memory, Store
from tilewright.hw.registers import CAUSES
from tilewright.report import Report
from tilewright.runtime.executor import Execution
from tilewright.runtime.program import Program

COLOURS = {
    "busy": "#2a7f62",
    "wait_memory": "#c0392b",
    "wait_conflict": "#8e44ad",
    "wait_dependency": "#e0a030",
    "idle": "#d5d8dc",
}


def plot_files(program: Program, execution: Execution, report: Report) -> dict[str, bytes]:
    """Return {file name: PNG bytes} of the plots of one request.

    Raises:
        SimulationError: the request ran on an engine without time.
    """
    if report.cycles is None or report.engines is None:
        raise SimulationError("plot: this engine has no time; use --engine rtl")
    with mpl.rc_context({"font.size": 9, "axes.spines.top": False, "axes.spines.right": False}):
        return {
            "layers.png": _png(_layers(report)),
            "roofline.png": _png(_roofline(program, report)),
            "timeline.png": _png(_timeline(program, execution, report)),
        }


def _png(figure: Figure) -> bytes:
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=120)
    return data.getvalue()


def _title(report: Report) -> str:
    return f"{report.model} on {report.config['name']}: {report.cycles:,} cycles"


def _layers(report: Report) -> Figure:
    rows = [row for row in report.layers if row.cycles]
    figure = Figure(figsize=(8, 1.2 + 0.35 * len(rows)), layout="constrained")
    axes = figure.subplots()
    places = np.arange(len(rows))
    axes.barh(places, [row.cycles or 0 for row in rows], height=0.7, color=COLOURS["busy"])
    axes.plot(
        [row.bound_cycles for row in rows], places, "|", color="black", ms=14, mew=2, label="bound"
    )
    for place, row in enumerate(rows):
        text = f" {row.utilization:.0%} of peak" if row.utilization else ""
        axes.text(row.cycles or 0, place, text, va="center", fontsize=8)
    axes.set_yticks(places, [f"{row.name}  {row.op}" for row in rows])
    axes.invert_yaxis()
    axes.margins(x=0.15)
    axes.set_xlabel("cycles")
    axes.set_title(_title(report))
    axes.legend(loc="lower right", frameon=False)
    return figure


def layer_bytes(program: Program) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the DRAM bytes that each layer's instructions read and write, int64[layers, 2]."""
    config = program.config
    moved = np.zeros((len(program.layers), 2), np.int64)
    for layer, task in zip(program.layer_of.tolist(), decode(program.code), strict=True):
        if layer < 0:
            continue
        if isinstance(task, Load):
            size = config.tile_bytes()[Memory(task.memory).name.lower()]
            size = config.output_tile_bytes if task.widen else size
            moved[layer, 0] += task.x * task.y * task.z * size
        elif isinstance(task, Store):
            size = config.accumulator_tile_bytes if task.raw else config.output_tile_bytes
            moved[layer, 1] += task.x * task.y * task.z * size
    return moved


def _roofline(program: Program, report: Report) -> Figure:
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    peak, bus = report.peak_macs_per_cycle, program.config.axi_bytes
    cycles = {row.name: row.cycles for row in report.layers}
    points = [
        (row.name, row.macs / size, row.macs / (cycles[row.name] or 1))
        for row, size in zip(program.layers, layer_bytes(program).max(axis=1).tolist(), strict=True)
        if row.macs and size and cycles[row.name]
    ]
    low = min([peak / bus, *(x for _, x, _ in points)]) / 4
    high = max([peak / bus, *(x for _, x, _ in points)]) * 4
    axes.loglog([low, peak / bus, high], [bus * low, peak, peak], color="black", lw=1)
    for name, x, y in points:
        axes.plot(x, y, "o", color=COLOURS["busy"])
        axes.annotate(name, (x, y), xytext=(4, 4), textcoords="offset points", fontsize=8)
    axes.set_xlabel("MACs a byte of the busier direction of DRAM traffic")
    axes.set_ylabel("MACs a cycle")
    axes.set_title(f"Roofline: peak {peak} MACs, bus {bus} bytes a cycle")
    return figure


def _timeline(program: Program, execution: Execution, report: Report) -> Figure:
    figure = Figure(figsize=(10, 4.5), layout="constrained")
    spans_axes, causes_axes = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    palette = mpl.colormaps["tab20"]
    labelled: set[int] = set()
    start = 0
    for invocation in execution.invocations:
        counters, spans = invocation.result.counters, invocation.result.spans
        if counters is None or spans is None:
            continue
        code = decode(program.code[invocation.first : invocation.first + invocation.count])
        owners = program.layer_of[invocation.first : invocation.first + invocation.count]
        engines = np.array([task.ENGINE for task in code])
        for engine in Engine:
            for layer in np.unique(owners[engines == engine]).tolist():
                chosen = spans[(engines == engine) & (owners == layer)]
                bars = [(begin + start, max(end - begin, 1)) for begin, end in chosen.tolist()]
                name = program.layers[layer].name if layer >= 0 else "other"
                spans_axes.broken_barh(
                    bars,
                    (engine - 0.4, 0.8),
                    color=palette(layer % 20) if layer >= 0 else "grey",
                    label=None if layer in labelled else name,
                )
                labelled.add(layer)
        start += counters.cycles
    spans_axes.set_yticks(list(Engine), [engine.name.lower() for engine in Engine])
    spans_axes.invert_yaxis()
    spans_axes.set_title(_title(report))
    spans_axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize=8)
    _causes(causes_axes, report)
    return figure


def _causes(axes: Any, report: Report) -> None:
    engines = report.engines or {}
    places = np.arange(len(engines))
    left = np.zeros(len(engines))
    for cause in CAUSES:
        width = np.array([engines[engine][cause] for engine in engines], float)
        axes.barh(places, width, left=left, color=COLOURS[cause], label=cause.replace("_", " "))
        left += width
    axes.set_yticks(places, list(engines))
    axes.invert_yaxis()
    axes.set_xlabel("cycles by cause")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False, fontsize=8)
