"""Builds the simulator of a config as a shared library, once: RTL → Verilator → C++ → cache."""

import hashlib
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import platformdirs
from filelock import FileLock

from tilewright.hw import verilog
from tilewright.hw.config import Config
from tilewright.hw.errors import DeviceError
from tilewright.sim.rtl.toolchain import Compiler, Verilator, find_compiler, find_verilator

HARNESS = Path(__file__).parent
HARNESS_FILES = ("harness.cpp", "memory_timing.h")
PREFIX = f"V{verilog.TOP}"
LIBRARY = "libtw_top.so"
DIGEST = f"{LIBRARY}.sha256"
"""Beside each library: loading one that was cut or changed could end the process."""

WORK_PREFIX = "build-"

VERILATE_FLAGS = (
    "--cc",
    "-O3",
    "--x-assign", "fast",
    "--x-initial", "unique",
    "--no-assert",
    "--no-timing",
    "--output-split", "0",
    "-Wno-fatal",
)  # fmt: skip
COMPILE_FLAGS = ("-std=c++17", "-fPIC", "-fvisibility=hidden", "-DVERILATOR=1", "-DVM_SC=0",
                 "-DVM_COVERAGE=0", "-DVM_TIMING=0", "-DVM_TRACE_FST=0", "-DVM_TRACE_SAIF=0",
                 "-DVL_USER_FINISH", "-DVL_USER_STOP", "-DVL_USER_FATAL")  # fmt: skip
FAST_FLAGS = ("-O3",)
SLOW_FLAGS = ("-O1",)
"""Construction, reset and the run-time library: they run once."""

LOG = "build.log"
"""What a failing tool printed, kept where the library would have been."""


def default_cache() -> Path:
    """The user's cache folder for built simulators."""
    return Path(platformdirs.user_cache_dir("tilewright")) / "rtl"


def build(
    config: Config,
    *,
    cache: Path | None = None,
    traced: bool = False,
    building: AbstractContextManager[object] | None = None,
) -> Path:
    """Return the shared library that simulates a config; `traced` can write waveforms.

    A library is kept in `cache` under a hash of all that makes it, and appears there whole;
    one that was damaged since is built again.  Two processes that want the same one build it
    once; what a killed build left is removed.  `building` is entered while it is made
    or awaited, and not when it is there.

    Raises:
        DeviceError: a tool is missing or fails, or the cache cannot be written.
    """
    verilator, compiler = find_verilator(), find_compiler()
    folder = (cache or default_cache()) / _key(config, verilator, compiler, traced=traced)
    library = folder / LIBRARY
    try:
        if _is_intact(library):
            return library
        folder.mkdir(parents=True, exist_ok=True)
        with building or nullcontext(), FileLock(folder / "lock"):
            if not _is_intact(library):
                for left in folder.glob(f"{WORK_PREFIX}*"):
                    shutil.rmtree(left)
                with tempfile.TemporaryDirectory(prefix=WORK_PREFIX, dir=folder) as work:
                    built = _Build(config, Path(work), verilator, compiler, traced=traced).run()
                    (folder / DIGEST).write_text(_digest(built))
                    built.replace(library)
                (folder / LOG).unlink(missing_ok=True)
    except OSError as error:
        raise DeviceError(
            f"rtl engine: cannot write {error.filename or folder} ({error.strerror});"
            " choose another cache folder"
        ) from error
    return library


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _is_intact(library: Path) -> bool:
    digest = library.with_name(DIGEST)
    return library.exists() and digest.exists() and digest.read_bytes() == _digest(library).encode()


def _key(config: Config, verilator: Verilator, compiler: Compiler, *, traced: bool) -> str:
    parts = [verilog.package(_anonymous(config)), verilator.version, compiler.version, str(traced)]
    parts += [path.name + path.read_text() for path in verilog.sources()]
    parts += [(HARNESS / name).read_text() for name in HARNESS_FILES]
    parts += [*VERILATE_FLAGS, *COMPILE_FLAGS, *FAST_FLAGS, *SLOW_FLAGS]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]


def _anonymous(config: Config) -> Config:
    """The config under a fixed name: the name is no part of the machine."""
    return config.replace(name="simulated")


class _Build:
    """One build in a folder of its own; the log of a failure goes into the folder above."""

    def __init__(
        self, config: Config, work: Path, verilator: Verilator, compiler: Compiler, *, traced: bool
    ) -> None:
        self._config = config
        self._work = work
        self._verilator = verilator
        self._compiler = compiler
        self._traced = traced

    def run(self) -> Path:
        model = self._verilate()
        generated = sorted(model.glob("*.cpp"))
        slow = [path for path in generated if path.stem.endswith(("__Slow", "__Syms"))]
        fast = [path for path in generated if path not in slow]
        runtime = ["verilated.cpp", "verilated_threads.cpp"]
        if self._traced:
            runtime.append("verilated_vcd_c.cpp")
        library = [self._verilator.root / "include" / name for name in runtime]
        units = {
            "fast": (FAST_FLAGS, [*fast, HARNESS / "harness.cpp"]),
            "slow": (SLOW_FLAGS, slow),
            "library": (SLOW_FLAGS, library),
        }
        with ThreadPoolExecutor(max_workers=2) as pool:
            objects = list(pool.map(lambda name: self._compile(name, *units[name]), units))
        built = self._work / LIBRARY
        self._call([self._compiler.program, "-shared", "-pthread", "-o", built, *objects])
        return built

    def _verilate(self) -> Path:
        sources = verilog.write_sources(_anonymous(self._config), self._work / "rtl")
        model = self._work / "model"
        trace = ["--trace-vcd", "--trace-structs"] if self._traced else []
        self._call(
            [
                self._verilator.program, *VERILATE_FLAGS, *trace,
                "--prefix", PREFIX, "--top-module", verilog.TOP, "--Mdir", model, *sources,
            ],
            environment={"VERILATOR_ROOT": str(self._verilator.root)},
        )  # fmt: skip
        return model

    def _compile(self, name: str, flags: Sequence[str], sources: Sequence[Path]) -> Path:
        """Compile sources as one unit, which lets the compiler see through calls between them."""
        unit = self._work / f"{name}.cpp"
        unit.write_text("".join(f'#include "{path}"\n' for path in sources))
        target = unit.with_suffix(".o")
        include = self._verilator.root / "include"
        self._call(
            [
                self._compiler.program, *COMPILE_FLAGS, *flags,
                f"-DVM_TRACE={int(self._traced)}", f"-DVM_TRACE_VCD={int(self._traced)}",
                f"-DAXI_BYTES={self._config.axi_bytes}",
                f"-DAXI_BURST_BEATS={self._config.axi_burst_beats}",
                f"-I{self._work / 'model'}", f"-I{HARNESS}", f"-I{include}",
                f"-I{include / 'vltstd'}", "-c", unit, "-o", target,
            ]
        )  # fmt: skip
        return target

    def _call(
        self, command: Sequence[str | Path], environment: dict[str, str] | None = None
    ) -> None:
        result = subprocess.run(
            command, capture_output=True, text=True, errors="replace", check=False, env=environment
        )
        if result.returncode:
            log = self._work.parent / LOG
            log.write_text("\n".join([shlex.join(map(str, command)), result.stderr, result.stdout]))
            raise DeviceError(
                f"rtl engine: {Path(command[0]).name} failed with status {result.returncode} for"
                f" config {self._config.name}: {_first_error(result.stderr)}; the full log is {log}"
            )


def _first_error(text: str) -> str:
    """Return the first line that speaks of an error, else the first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["it printed nothing"]
    return next((line for line in lines if "error" in line.lower()), lines[0])
