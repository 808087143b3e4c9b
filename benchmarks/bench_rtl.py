"""How fast the RTL simulates: `make bench` prints the figures."""

from pathlib import Path

import pytest

from tilewright.api import compile as compile_model
from tilewright.api import report_of
from tilewright.demo import LENET5, load_images
from tilewright.outputs import write_folder
from tilewright.sim.memory import MemoryModel
from tilewright.simulation import open_engine, simulate
from tilewright.tables import summary_lines

IMAGES = 200
RESULTS = Path(__file__).resolve().parents[1] / "build" / "bench"
"""Where `make bench` leaves reports as JSON; docs/report.md says what they hold."""

REQUIRED_CYCLES_A_CPU_SECOND = 1_000_000


@pytest.mark.parametrize("model", [LENET5], ids=lambda path: path.stem)
def test_rtl_speed_of_the_default_config(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = compile_model(model).program
    memory = MemoryModel()
    device = open_engine("rtl", program.config, memory=memory)
    feeds, _ = load_images(IMAGES)
    report = report_of(program, simulate(program, feeds, device), "rtl", memory)
    write_folder(RESULTS, {f"rtl-{model.stem}.json": report.to_json().encode()})
    with capsys.disabled():
        print("", *summary_lines(report), sep="\n")
    assert (report.cycles_per_cpu_second or 0) >= REQUIRED_CYCLES_A_CPU_SECOND
