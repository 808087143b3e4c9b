"""Plots: PNG files of every view, from numbers that match the code."""

from tilewright.plots import layer_bytes, plot_files
from tilewright.report import build_report
from tilewright.runtime.executor import Execution
from tilewright.runtime.program import Program


def test_every_plot_is_a_png(two_layers: Program, timed: Execution) -> None:
    report = build_report(
        two_layers,
        [timed],
        engine="rtl",
        target="accelerator,cpu",
        memory=None,
        wall_seconds=1.0,
        cpu_seconds=1.0,
    )
    files = plot_files(two_layers, timed, report)
    assert sorted(files) == ["layers.png", "roofline.png", "timeline.png"]
    assert all(data.startswith(b"\x89PNG") and len(data) > 5000 for data in files.values())


def test_bytes_of_a_layer_are_those_its_instructions_move(two_layers: Program) -> None:
    assert layer_bytes(two_layers).tolist() == [[8 + 32 + 16 + 4, 4], [16 + 4, 4], [0, 0]]
