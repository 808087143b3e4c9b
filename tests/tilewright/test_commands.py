"""The commands on the embedded model, with the functional engine where time does not matter."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np
import pytest

from tilewright.cli import cli, main
from tilewright.demo import load_images
from tilewright.runtime.executor import Execution, Executor

Run = Callable[..., str]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command that must succeed; return what it printed."""

    def call(*arguments: str | Path, status: int = 0) -> str:
        with pytest.raises(SystemExit) as stopped:
            main([str(argument) for argument in arguments])
        output = capsys.readouterr()
        assert stopped.value.code == status, output.err
        return output.out

    return call


def commands(command: click.Command, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    if not isinstance(command, click.Group):
        return [path]
    context = click.Context(command)
    members = {name: command.get_command(context, name) for name in command.list_commands(context)}
    return [p for name, c in members.items() if c for p in commands(c, (*path, name))]


@pytest.mark.parametrize("path", commands(cli), ids=" ".join)
def test_help_shows_an_example_and_the_common_options(run: Run, path: tuple[str, ...]) -> None:
    text = run(*path, "--help")
    assert f"Example:\n    tilewright {' '.join(path)}" in text
    assert all(option in text for option in ("--json", "--quiet", "--debug"))


def test_without_a_command_the_help_is_shown(run: Run) -> None:
    assert run().startswith("Usage: tilewright")


def test_simulate_writes_report_and_outputs(run: Run, tmp_path: Path, lenet5_path: Path) -> None:
    feeds, _ = load_images(3)
    np.savez(tmp_path / "in.npz", image=np.stack([feed["image"] for feed in feeds]))
    text = run(
        *("simulate", lenet5_path, "--engine", "functional", "--samples", "3", "--check"),
        *("--input", tmp_path / "in.npz", "--output", tmp_path / "out.npz"),
        *("--json", tmp_path / "report.json"),
    )
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["engine"], report["samples"], report["cycles"]) == ("functional", 3, None)
    assert report["check"]["exact"]["compared"] == 30
    assert report["check"]["exact"]["mismatched"] == 0
    with np.load(tmp_path / "out.npz") as outputs:
        assert outputs["logits"].shape == (3, 1, 10)
        assert outputs["logits"].argmax(axis=-1).reshape(-1).tolist() == [7, 2, 1]
    assert "30 values compared, 0 differ" in text


def test_trace_plots_and_waveforms_of_the_rtl(run: Run, tmp_path: Path, lenet5_path: Path) -> None:
    run(
        *("simulate", lenet5_path, "--config", "tiny", "--check=layers"),
        *("--trace", tmp_path / "t.json", "--plot", tmp_path / "plots"),
        *("--vcd", tmp_path / "w.vcd", "--json", tmp_path / "report.json"),
    )
    report = json.loads((tmp_path / "report.json").read_text())
    assert sum(row["cycles"] for row in report["layers"]) == report["cycles"]
    assert report["check"]["exact"]["mismatched"] == 0
    assert report["memory"]["latency"] == 20
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    assert sum("instruction" in event["args"] for event in events) == report["instructions"]
    plots = {path.name for path in (tmp_path / "plots").iterdir()}
    assert plots == {"layers.png", "roofline.png", "timeline.png"}
    assert "$enddefinitions" in (tmp_path / "w.vcd").read_text()


def test_memory_changes_cycles_and_not_outputs(run: Run, tmp_path: Path, lenet5_path: Path) -> None:
    results = []
    for memory in ("latency=20", "latency=90,beats=1/2,jitter=7:3"):
        text = run(
            *("simulate", lenet5_path, "--config", "tiny", "--memory", memory),
            *("--output", tmp_path / "out.npz", "--json", "-"),
        )
        results.append((json.loads(text), (tmp_path / "out.npz").read_bytes()))
    (fast, outputs), (slow, same_outputs) = results
    assert outputs == same_outputs
    assert fast["cycles"] < slow["cycles"]
    assert fast["floor_cycles"] <= slow["floor_cycles"] <= 2 * fast["floor_cycles"]
    assert fast["bound_cycles"] < slow["bound_cycles"]


def test_json_on_standard_output_is_all_there_is(run: Run, lenet5_path: Path) -> None:
    text = run("simulate", lenet5_path, "--engine", "functional", "--json", "-")
    assert json.loads(text)["model"] == "lenet5_int8_qdq_s8"


def test_quiet_prints_nothing(run: Run, lenet5_path: Path) -> None:
    assert run("simulate", lenet5_path, "--engine", "functional", "--quiet") == ""


def test_the_seed_decides_the_random_input(run: Run, tmp_path: Path, lenet5_path: Path) -> None:
    results = []
    for name, seed in (("a", "0"), ("b", "0"), ("c", "1")):
        path = tmp_path / f"{name}.npz"
        run("simulate", lenet5_path, "--engine", "functional", "--seed", seed, "--output", path)
        results.append(path.read_bytes())
    assert results[0] == results[1] != results[2]


def test_shape_binds_the_batch(run: Run, tmp_path: Path, lenet5_path: Path) -> None:
    path = tmp_path / "out.npz"
    run(
        *("simulate", lenet5_path, "--engine", "functional", "--shape", "N=3"),
        *("--output", path, "--check=layers"),
    )
    with np.load(path) as outputs:
        assert outputs["logits"].shape == (3, 10)


def test_a_saved_program_gives_the_model_s_outputs(
    run: Run, tmp_path: Path, lenet5_path: Path
) -> None:
    program = tmp_path / "lenet5.twp"
    run("compile", lenet5_path, "-o", program, "--config", "tiny")
    paths = tmp_path / "a.npz", tmp_path / "b.npz"
    common = ("--engine", "functional", "--seed", "5", "--check")
    run("simulate", program, *common, "--output", paths[0])
    run("simulate", lenet5_path, "--config", "tiny", *common, "--output", paths[1])
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_equal_models_compile_to_equal_bytes(run: Run, tmp_path: Path, lenet5_path: Path) -> None:
    paths = tmp_path / "a.twp", tmp_path / "b.twp"
    for path in paths:
        run("compile", lenet5_path, "-o", path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_a_wrong_value_exits_1_and_says_where(
    run: Run, lenet5_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = Executor.run

    def wrong(self: Executor, feeds: dict[str, np.ndarray]) -> Execution:
        execution = served(self, feeds)
        execution.outputs["logits"][0, 3] += 1  # type: ignore[index]
        return execution

    monkeypatch.setattr(Executor, "run", wrong)
    text = run("simulate", lenet5_path, "--engine", "functional", "--check", status=1)
    assert "mismatch with exact: logits[0, 3] of sample 0: got " in text


def test_inspect_shows_every_view(run: Run, tmp_path: Path, lenet5_path: Path) -> None:
    table = json.loads(run("inspect", lenet5_path, "--json", "-"))
    assert table["graph"].startswith("graph lenet5_int8_qdq_s8(")
    assert table["disassembly"][-1].split()[1] == "finish"
    assert {layer["target"] for layer in table["layers"]} <= {"accelerator", "cpu"}
    text = run("inspect", lenet5_path)
    assert all(word in text for word in ("graph ", "memory plan", "steps", "code"))
    program = tmp_path / "m.twp"
    run("compile", lenet5_path, "-o", program)
    assert json.loads(run("inspect", program, "--json", "-"))["disassembly"] == table["disassembly"]


def test_generate_writes_sources_a_bench_and_its_makefile(run: Run, tmp_path: Path) -> None:
    run("generate", "--config", "tiny", "--form", "verilog", "-o", tmp_path / "rtl")
    names = {path.name for path in (tmp_path / "rtl").iterdir()}
    assert names >= {"tw_pkg.sv", "tw_top.sv", "tw_bench.sv", "files.f", "Makefile", "dram.hex"}
    listed = (tmp_path / "rtl" / "files.f").read_text().split()
    assert set(listed) == {name for name in names if name.endswith(".sv")}
    assert listed[0] == "tw_pkg.sv"


@pytest.mark.slow
@pytest.mark.parametrize("simulator", ["wheel", "icarus"])
@pytest.mark.parametrize("config", ["tiny", "batch=4,block_in=8,block_out=32"])
def test_the_generated_bench_passes_where_it_lies(
    run: Run, tmp_path: Path, simulator: str, config: str
) -> None:
    if simulator == "icarus" and shutil.which("iverilog") is None:
        pytest.skip("iverilog is not installed; get it with: apt-get install iverilog")
    run("generate", "--config", config, "--form", "verilog", "-o", tmp_path / "rtl")
    make = ["make", "-C", tmp_path / "rtl", f"SIM={simulator}", f"PYTHON={sys.executable}"]
    result = subprocess.run(make, capture_output=True, text=True, timeout=300, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "PASS: " in result.stdout
    assert "Warning" not in result.stdout + result.stderr


def test_config_commands_agree(run: Run) -> None:
    shown = json.loads(run("config", "show", "tiny,block_out=8", "--json", "-"))
    checked = json.loads(run("config", "check", "tiny,block_out=8", "--json", "-"))
    assert shown["config_hash"] == checked["config_hash"]
    assert shown["derived"]["peak_macs_per_cycle"] == 32
    assert shown["encoding"]["uop"] == [49, 64]
    assert set(json.loads(run("config", "list", "--json", "-"))["presets"]) >= {"tiny", "pynq-z1"}


def test_doctor_reports_every_tool(run: Run) -> None:
    table = json.loads(run("doctor", "--json", "-"))
    assert {check["name"] for check in table["checks"]} >= {"Python", "C++ compiler", "make"}
    assert "numpy" in table["versions"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("options", [(), ("--json", "-")])
def test_a_full_standard_output_is_one_line(options: tuple[str, ...], tmp_path: Path) -> None:
    program = "from tilewright.cli import main; main()"
    command = [sys.executable, "-c", program, "config", "list", *options]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=tmp_path
        )
    assert done.returncode == 2
    assert done.stderr == ("error: standard output: cannot be written (No space left on device)\n")
