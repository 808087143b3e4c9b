"""Hardware-software co-design for deep-learning inference.

One `Config` gives an accelerator's Verilog, its exact simulators and a compiler for it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tilewright.api import (
        Executable,
        InferenceSession,
        Run,
        compile,  # noqa: A004  (the public name)
        load_program,
    )
    from tilewright.hw.config import Config
    from tilewright.hw.errors import (
        CompileError,
        ConfigError,
        DeviceError,
        Error,
        ModelError,
        SimulationError,
    )
    from tilewright.model import Graph, load
    from tilewright.report import Report

__all__ = [
    "CompileError",
    "Config",
    "ConfigError",
    "DeviceError",
    "Error",
    "Executable",
    "Graph",
    "InferenceSession",
    "ModelError",
    "Report",
    "Run",
    "SimulationError",
    "compile",
    "load",
    "load_program",
]

_HOMES = {
    "tilewright.api": ("Executable", "InferenceSession", "Run", "compile", "load_program"),
    "tilewright.hw.config": ("Config",),
    "tilewright.hw.errors": (
        "CompileError",
        "ConfigError",
        "DeviceError",
        "Error",
        "ModelError",
        "SimulationError",
    ),
    "tilewright.model": ("Graph", "load"),
    "tilewright.report": ("Report",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a public name on first use, so that one sub-package does not load all the others."""
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME_OF[name]), name)


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
