"""The wheel holds all that the commands need, away from the checkout."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NO_SOURCE = shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__")
MAIN = "import tilewright.cli; tilewright.cli.main()"
WHERE = "import tilewright.demo; print(tilewright.demo.LENET5)"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, unpacked: what pip puts into site-packages."""
    folder = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, folder / "source", ignore=NO_SOURCE)
    command = ["pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
    subprocess.run([sys.executable, "-m", *command, folder / "source", "-w", folder], check=True)
    (path,) = folder.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder / "installed")
    return folder / "installed"


def python(wheel: Path, folder: Path, *arguments: str) -> str:
    """Run Python with the wheel's packages before all others; return what it printed."""
    result = subprocess.run(
        [sys.executable, "-c", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(wheel)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.slow
def test_the_commands_run_from_the_wheel(wheel: Path, tmp_path: Path) -> None:
    model = python(wheel, tmp_path, WHERE).strip()
    assert Path(model).is_relative_to(wheel)
    assert "Usage: " in python(wheel, tmp_path, MAIN, "demo", "--help")
    text = python(wheel, tmp_path, MAIN, "simulate", model, "--config", "tiny", "--check")
    assert "check exact: 10 values compared, 0 differ" in text
    python(wheel, tmp_path, MAIN, "generate", "--form", "verilog", "-o", "rtl")
    assert (tmp_path / "rtl" / "tw_top.sv").exists()
