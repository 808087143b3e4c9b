"""Run requests on one of the engines, and time them."""

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from tilewright.feeds import Feeds
from tilewright.hw.config import Config
from tilewright.hw.errors import SimulationError
from tilewright.runtime.device import Device
from tilewright.runtime.executor import Execution, Executor, check_feeds
from tilewright.runtime.program import Program
from tilewright.sim.functional import FunctionalEngine
from tilewright.sim.memory import MemoryModel
from tilewright.sim.rtl.engine import RtlEngine

ENGINES = ("rtl", "functional")


@dataclass(frozen=True, slots=True)
class Simulation:
    """Requests that were served in turn, and the host's time for all of them together."""

    executions: tuple[Execution, ...]
    wall_seconds: float
    cpu_seconds: float


def check_engine(name: str) -> None:
    """Check the name of an engine.

    Raises:
        SimulationError: no engine of that name.
    """
    if name not in ENGINES:
        raise SimulationError(f"engine {name!r}: not available; choose {' or '.join(ENGINES)}")


def open_engine(
    name: str,
    config: Config,
    *,
    memory: MemoryModel,
    vcd: Path | None = None,
    building: AbstractContextManager[object] | None = None,
) -> Device:
    """Return an engine; `rtl` builds the simulator of this config on its first use.

    `building` is entered while that lasts.

    Raises:
        SimulationError: no engine of that name, or one that draws no waveforms was asked to.
        DeviceError: a tool that the engine needs is missing.
    """
    check_engine(name)
    if name == "rtl":
        return RtlEngine(config, memory, vcd=vcd, building=building)
    if vcd is not None:
        raise SimulationError(f"--vcd: engine {name!r} has no signals; use --engine rtl")
    return FunctionalEngine(config)


def simulate(
    program: Program,
    samples: Sequence[Feeds],
    device: Device,
    *,
    all_tensors: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Simulation:
    """Serve every sample; `progress` is called with the number of samples done.

    Raises:
        ModelError: a sample of another name, shape or element type.
        SimulationError: the program broke a rule of the machine.
    """
    for sample in samples:
        check_feeds(program, sample)
    executor = Executor(program, device, all_tensors=all_tensors)
    executions = []
    wall, cpu = time.perf_counter(), time.process_time()
    for done, sample in enumerate(samples, 1):
        executions.append(executor.run(sample))
        if progress:
            progress(done)
    return Simulation(tuple(executions), time.perf_counter() - wall, time.process_time() - cpu)
