"""A whole request on the RTL: outputs, cycles and layers as the report tells them."""

import numpy as np

from tilewright.report import build_report
from tilewright.runtime.program import Program
from tilewright.sim.memory import MemoryModel
from tilewright.simulation import open_engine, simulate


def test_cycles_engines_and_layers_of_a_run_add_up(two_layers: Program) -> None:
    samples = [{"x": np.array([[k, -2, 3, 4]], np.int8)} for k in range(3)]
    device = open_engine("rtl", two_layers.config, memory=MemoryModel())
    served = simulate(two_layers, samples, device)
    report = build_report(
        two_layers,
        served.executions,
        engine="rtl",
        target="accelerator,cpu",
        memory=MemoryModel().to_dict(),
        wall_seconds=served.wall_seconds,
        cpu_seconds=served.cpu_seconds,
    )
    assert [each.outputs["y"].tolist() for each in served.executions] == [
        [[24, 6 * k, -12, 18]] for k in range(3)
    ]
    assert report.cycles is not None
    assert report.engines is not None
    assert report.cycles_total == 3 * report.cycles
    assert {sum(causes.values()) for causes in report.engines.values()} == {report.cycles}
    assert sum(row.cycles or 0 for row in report.layers) == report.cycles
    assert all(row.cycles for row in report.layers if row.target == "accelerator")
    assert (report.dram_bytes_written, report.instructions) == (8, 11)
