"""The RTL before the tools that build it: Verilator's lint, and Yosys for size and paths."""

import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tilewright.hw import synthesis, verilog
from tilewright.hw.config import Config
from tilewright.hw.errors import DeviceError
from tilewright.hw.isa import Segment
from tilewright.hw.resources import XC7Z020, XCZU3EG, Part
from tilewright.sim.functional import FunctionalEngine
from tilewright.sim.memory import MemoryModel
from tilewright.sim.random_programs import random_program
from tilewright.sim.rtl.engine import RtlEngine
from tilewright.sim.rtl.toolchain import find_verilator

CONFIGS = ("pynq-z1", "tiny", "ultra96", "pynq-z1,block_in=8,block_out=32", "pynq-z1,batch=4")
SHARE = 0.85
"""What a preset may take of its board's part: the rest is left to the system around it."""
READ_PROGRAMS = 30


@pytest.mark.parametrize("text", CONFIGS)
def test_verilator_lints_without_a_warning(text: str, tmp_path: Path) -> None:
    # IMPORTSTAR warns of `import tw_pkg::*` outside a module. The import stands there because
    # Yosys and Icarus refuse it in a module's header, and ports need the package's sizes.
    verilator = find_verilator()
    sources = verilog.write_sources(Config.parse(text), tmp_path)
    command = [verilator.program, "--lint-only", "--quiet", "-Wall", "-Wno-IMPORTSTAR"]
    result = subprocess.run(
        [*command, "--top-module", verilog.TOP, *sources],
        env={**os.environ, "VERILATOR_ROOT": str(verilator.root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout + result.stderr) == (0, "")


@pytest.mark.parametrize("text", CONFIGS)
def test_yosys_parses_without_a_warning(text: str, tmp_path: Path) -> None:
    commands = synthesis.read_commands(Config.parse(text), tmp_path)
    assert synthesis.run_yosys(f"{commands}; hierarchy -check -top {verilog.TOP}", tmp_path) == ""


def test_yosys_refuses_what_is_no_verilog(tmp_path: Path) -> None:
    (tmp_path / "bad.sv").write_text("module bad(input wire a; endmodule\n")
    with pytest.raises(DeviceError, match=re.escape("bad.sv:1: ERROR")):
        synthesis.run_yosys("read_verilog -sv bad.sv", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "tiny",
        "pynq-z1,batch=2,block_in=8,block_out=32",
        "pynq-z1,batch=4,block_in=32,block_out=8,axi_data_bits=32",
    ],
)
def test_what_yosys_reads_runs_as_the_functional_engine(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Yosys writes what it understood, Verilator simulates that.

    Yosys 0.70 lets `if (b) q <= x; q <= y;` inside another `if` end in x; nothing else would tell.
    """
    config = Config.parse(text)
    commands = synthesis.read_commands(config, tmp_path)
    synthesis.run_yosys(
        f"{commands}; hierarchy -check -top {verilog.TOP}; proc; flatten; opt;"
        " write_verilog -noattr read.v",
        tmp_path,
    )

    def write_sources(_: Config, folder: Path) -> list[Path]:
        folder.mkdir()
        path = folder / f"{verilog.TOP}.v"
        path.write_text((tmp_path / "read.v").read_text())
        return [path]

    monkeypatch.setattr(verilog, "write_sources", write_sources)
    engine = RtlEngine(config, MemoryModel(), cache=tmp_path / "cache")
    for seed in range(READ_PROGRAMS):
        program = random_program(config, np.random.default_rng(seed))
        expected, found = program.copy_segments(), program.copy_segments()
        FunctionalEngine(config).run(expected)
        engine.run(found)
        for segment in (Segment.WORKSPACE, Segment.OUTPUT):
            assert np.array_equal(found[segment], expected[segment]), f"seed {seed}"


SUM_OF_SELECTED = """
module tw_top(input wire clk, input wire [31:0] a, b, input wire [7:0] s, output reg [31:0] y);
  reg [31:0] a_q, b_q;
  reg [7:0] s_q;
  always @(posedge clk) begin
    {a_q, b_q, s_q} <= {a, b, s};
    y <= &s_q ? a_q + b_q : ~y;
  end
endmodule
"""


@pytest.mark.slow
def test_levels_of_a_known_path(tmp_path: Path) -> None:
    """An addition (a table, into the chain and out, eight cells) and the table that selects."""
    (tmp_path / "tw_top.sv").write_text(SUM_OF_SELECTED)
    netlist = synthesis.map_netlist("read_verilog -sv tw_top.sv", XC7Z020, tmp_path)
    path = netlist.longest_paths(1)[0]
    assert (path.levels, path.source, path.target) == (4.0, "a_q[0]", "y")
    assert sorted(set(path.cells)) == ["CARRY4", "LUT2", "LUT3"]
    assert netlist.used.flip_flops == 32 + 32 + 8 + 32


@pytest.mark.slow
def test_no_path_is_longer_than_a_multiplier_or_a_chain_and_four_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    netlist = synthesis.synthesize(Config.preset("tiny"), XC7Z020, tmp_path)
    paths = netlist.longest_paths(10)
    with capsys.disabled():
        print("", *paths, sep="\n")
    assert [str(path) for path in paths if path.levels > synthesis.PATH_BUDGET] == []


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "part"), [("pynq-z1", XC7Z020), ("ultra96", XCZU3EG)])
def test_preset_fits_its_board(
    preset: str, part: Part, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    used = synthesis.synthesize(Config.preset(preset), part, tmp_path).used
    shares = used.shares(part)
    with capsys.disabled():
        print(f"\n{preset} on {part.name}: {used}", *(f"{k} {v:.1%}" for k, v in shares.items()))
    assert {key: share for key, share in shares.items() if share > SHARE} == {}
