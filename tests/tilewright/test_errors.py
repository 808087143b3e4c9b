"""Bad input: exit status 2, one whole line on standard error, and nothing left behind."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tilewright.cli import main
from tilewright.hw.config import Config
from tilewright.hw.errors import SimulationError
from tilewright.sim.rtl.engine import RtlEngine

Run = Callable[..., str]
IMAGE = np.zeros((1, 1, 28, 28), np.float32)


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """Run a command that must be refused; return its error without the temporary folder."""

    def run(*arguments: str | Path) -> str:
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(SystemExit) as stopped:
            main([str(argument) for argument in arguments])
        assert stopped.value.code == 2
        output = capsys.readouterr()
        assert output.out == ""
        assert sorted(tmp_path.rglob("*")) == before
        return output.err.replace(str(tmp_path), "TMP")

    return run


@pytest.fixture
def simulate(refused: Run) -> Run:
    """Run `simulate --engine functional` that must be refused."""
    return lambda *arguments: refused("simulate", "--engine", "functional", *arguments)


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def save(path: Path, model: onnx.ModelProto) -> Path:
    return write(path, model.SerializeToString())


def test_no_such_model(simulate: Run, tmp_path: Path) -> None:
    assert simulate(tmp_path / "no.onnx") == "error: TMP/no.onnx: no such file\n"


def test_not_an_onnx_file(simulate: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "m.onnx", b"\x89PNG\r\n\x1a\n" + bytes(100))
    assert simulate(path) == (
        "error: TMP/m.onnx: not an ONNX file; give an .onnx model or a .twp program\n"
    )


def test_truncated_onnx_file(simulate: Run, tmp_path: Path, lenet5_path: Path) -> None:
    data = lenet5_path.read_bytes()
    path = write(tmp_path / "m.onnx", data[:40_000])
    assert simulate(path) == (
        "error: TMP/m.onnx: truncated: 40000 bytes of at least 71659; copy the file again\n"
    )


def test_missing_weights(simulate: Run, tmp_path: Path, lenet5_path: Path) -> None:
    model = onnx.load(lenet5_path)
    kept = [each for each in model.graph.initializer if each.name != "c3w_quantized"]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    assert simulate(save(tmp_path / "m.onnx", model)) == (
        "error: TMP/m.onnx: node 'c3w_DequantizeLinear': DequantizeLinear: its input"
        " 'c3w_quantized' is no initializer, graph input or output of an earlier node;"
        " the file lacks weights\n"
    )


def test_unsupported_operator(simulate: Run, tmp_path: Path) -> None:
    node = helper.make_node("Fold", ["x"], ["y"], name="fold_1", domain="org.example")
    shapes = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4]) for n in "xy"]
    graph = helper.make_graph([node], "m", shapes[:1], shapes[1:])
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("org.example", 1)]
    model = helper.make_model(graph, opset_imports=opsets)
    assert simulate(save(tmp_path / "m.onnx", model)) == (
        "error: TMP/m.onnx: node 'fold_1': operator Fold of domain org.example is not supported;"
        " replace it in the exported model\n"
    )


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            {"image": IMAGE[:, :, :27]},
            "input 'image': shape [1, 1, 27, 28], but the program takes [1, 1, 28, 28];"
            " give one inference of that shape",
        ),
        (
            {"image": IMAGE[0]},
            "input 'image': shape [1, 28, 28], but the program takes [1, 1, 28, 28];"
            " give one inference of that shape",
        ),
        (
            {"image": IMAGE.astype(np.float64)},
            "input 'image': element type float64, but the model takes float32;"
            " convert it with .astype('float32')",
        ),
        (
            {"picture": IMAGE},
            "input 'picture': no such input; the model's are image (float32[1, 1, 28, 28])",
        ),
        ({}, "input 'image': missing; give float32[1, 1, 28, 28]"),
    ],
)
def test_inputs_that_do_not_fit(
    simulate: Run, tmp_path: Path, lenet5_path: Path, arrays: dict[str, np.ndarray], message: str
) -> None:
    np.savez(tmp_path / "in.npz", **arrays)
    assert simulate(lenet5_path, "--input", tmp_path / "in.npz") == f"error: {message}\n"


def test_an_input_that_is_no_npz(simulate: Run, tmp_path: Path, lenet5_path: Path) -> None:
    path = write(tmp_path / "in.npz", b"PK\x03\x04" + bytes(40))
    assert simulate(lenet5_path, "--input", path) == (
        "error: TMP/in.npz: not an .npz of arrays (File is not a zip file); use np.savez\n"
    )


def test_impossible_config(simulate: Run, lenet5_path: Path) -> None:
    assert simulate(lenet5_path, "--config", "pynq-z1,block_in=24") == (
        "error: config pynq-z1: block_in=24 is not legal; choose 4, 8, 16, 32, 64\n"
    )


def test_unknown_config_key(simulate: Run, lenet5_path: Path) -> None:
    known = ", ".join(sorted(Config.__dataclass_fields__))
    assert simulate(lenet5_path, "--config", "pynq-z1,blocks=4") == (
        f"error: config pynq-z1: unknown field 'blocks'; known: {known}\n"
    )


def test_unknown_preset(simulate: Run, lenet5_path: Path) -> None:
    assert simulate(lenet5_path, "--config", "pynq") == (
        "error: config 'pynq': no such preset; choose large, pynq-z1, pynq-z2, tiny, ultra96 or"
        " a .toml file\n"
    )


def test_program_made_for_another_config(simulate: Run, tmp_path: Path, lenet5_path: Path) -> None:
    path = tmp_path / "m.twp"
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["compile", str(lenet5_path), "-o", str(path), "--config", "pynq-z1", "--quiet"])
    made, wanted = (Config.preset(name).config_hash for name in ("pynq-z1", "tiny"))
    assert simulate(path, "--config", "tiny") == (
        f"error: TMP/m.twp: made for config pynq-z1 ({made:016x}), not for tiny ({wanted:016x});"
        " compile the model for tiny\n"
    )


def test_not_a_program(simulate: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "m.twp", b"nothing")
    assert simulate(path) == (
        "error: TMP/m.twp: not a tilewright program (File is not a zip file);"
        " compile the model again\n"
    )


def test_no_compiler(
    refused: Run, tmp_path: Path, lenet5_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert refused("simulate", lenet5_path) == (
        "error: rtl engine: no C++ compiler found (c++, g++, clang++), which builds the simulator"
        " of the RTL; get one with: apt-get install g++ make\n"
    )


def test_a_run_that_fails_leaves_no_waveforms(
    refused: Run, tmp_path: Path, lenet5_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> int:
        raise SimulationError("rtl engine: nothing moved")

    monkeypatch.setattr(RtlEngine, "run", fail)
    arguments = ("--config", "tiny", "--vcd", tmp_path / "w.vcd")
    assert refused("simulate", lenet5_path, *arguments) == "error: rtl engine: nothing moved\n"


@pytest.mark.parametrize("option", ["--json", "--output", "--trace", "--vcd", "--plot"])
def test_outputs_into_a_folder_that_is_a_file(
    refused: Run, tmp_path: Path, lenet5_path: Path, option: str
) -> None:
    write(tmp_path / "file", b"")
    path = tmp_path / "file" / "out"
    assert refused("simulate", lenet5_path, option, path) == (
        "error: TMP/file/out: cannot be written (Not a directory);"
        " choose a folder you may write to\n"
    )


def test_output_into_a_folder_that_is_missing(
    refused: Run, tmp_path: Path, lenet5_path: Path
) -> None:
    assert refused("compile", lenet5_path, "-o", tmp_path / "no" / "m.twp") == (
        "error: TMP/no/m.twp: cannot be written (No such file or directory);"
        " choose a folder you may write to\n"
    )


def test_generate_into_a_folder_that_is_a_file(refused: Run, tmp_path: Path) -> None:
    path = write(tmp_path / "file", b"")
    assert refused("generate", "--form", "verilog", "-o", path / "rtl") == (
        "error: TMP/file/rtl: cannot be written (Not a directory);"
        " choose a folder you may write to\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--engine", "warp"], "engine 'warp': not available; choose rtl or functional"),
        (["--target", "gpu"], "target 'gpu': not available; choose accelerator,cpu"),
        (["--samples", "0"], "--samples 0: give at least 1"),
        (["--check=all"], "--check=all: no such level; write --check or --check=layers"),
        (["--shape", "N"], "--shape 'N': not NAME=SIZE; write e.g. N=1"),
        (
            ["--shape", "M=2"],
            "--shape M: no such dimension; the model's symbolic ones: N",
        ),
        (
            ["--engine", "functional", "--trace", "t.json"],
            "--trace: engine 'functional' has no time; use --engine rtl",
        ),
        (
            ["--engine", "functional", "--vcd", "w.vcd"],
            "--vcd: engine 'functional' has no signals; use --engine rtl",
        ),
    ],
)
def test_options_that_mean_nothing(
    refused: Run, lenet5_path: Path, arguments: list[str], message: str
) -> None:
    assert refused("simulate", lenet5_path, *arguments) == f"error: {message}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulate"], "Missing argument 'MODEL'; see `tilewright simulate --help`"),
        (["simulate", "m.onnx", "--sample", "1"], None),
        (["tune"], "No such command 'tune'; see `tilewright --help`"),
        (["generate", "--form", "vhdl", "-o", "x"], "form 'vhdl': not available; choose verilog"),
    ],
)
def test_usage_errors_are_one_line(refused: Run, arguments: list[str], message: str | None) -> None:
    text = refused(*arguments)
    assert text.startswith("error: ")
    assert text.count("\n") == 1
    assert message is None or text == f"error: {message}\n"


def test_debug_shows_where_an_error_was_raised(refused: Run, tmp_path: Path) -> None:
    text = refused("simulate", tmp_path / "no.onnx", "--debug")
    assert text.startswith("Traceback")
    assert text.endswith("error: TMP/no.onnx: no such file\n")


def test_results_that_would_overwrite_each_other(
    simulate: Run, tmp_path: Path, lenet5_path: Path
) -> None:
    path = tmp_path / "o.npz"
    assert simulate(lenet5_path, "--output", path, "--json", path) == (
        "error: TMP/o.npz: --output and --json name one file; give two names\n"
    )


def test_arrays_do_not_go_to_standard_output(simulate: Run, lenet5_path: Path) -> None:
    assert simulate(lenet5_path, "--output", "-") == (
        "error: --output -: cannot go to standard output; give the name of a file\n"
    )


def test_an_empty_config_is_no_default(simulate: Run, lenet5_path: Path) -> None:
    assert simulate(lenet5_path, "--config", "").startswith("error: config '': no such preset;")


def test_a_seed_is_not_negative(simulate: Run, lenet5_path: Path) -> None:
    assert simulate(lenet5_path, "--seed", "-1") == (
        "error: Invalid value for '--seed': -1 is not in the range x>=0;"
        " see `tilewright simulate --help`\n"
    )
