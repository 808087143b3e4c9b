"""The functions that a program calls: `load`, `compile`, `load_program`, `InferenceSession`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from tilewright.compiler.bounds import floor_cycles, node_bounds
from tilewright.compiler.passes.bind_shapes import bind_shapes
from tilewright.compiler.pipeline import compile_graph
from tilewright.feeds import infer_shapes
from tilewright.hw.config import Config
from tilewright.hw.errors import CompileError, ConfigError, ModelError
from tilewright.model import Graph, load, reference_graph
from tilewright.report import Report, build_report
from tilewright.runtime import load as program_file
from tilewright.runtime.program import Program
from tilewright.runtime.tensor import Array
from tilewright.sim.memory import MemoryModel
from tilewright.simulation import Simulation, check_engine, open_engine, simulate

DEFAULT_CONFIG = "pynq-z1"
DEFAULT_TARGET = "accelerator,cpu"
PROGRAM_SUFFIX = ".twp"


@dataclass(frozen=True, slots=True)
class Run:
    """The outcome of one request; `tensors` is filled when it was asked for."""

    outputs: Mapping[str, Array]
    report: Report
    tensors: Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Executable:
    """A compiled model, for one config and fixed shapes."""

    program: Program

    @property
    def config(self) -> Config:
        """The machine it runs on."""
        return self.program.config

    def run(
        self,
        feeds: Mapping[str, Array],
        *,
        engine: str = "rtl",
        memory: MemoryModel | None = None,
        tensors: bool = False,
    ) -> Run:
        """Run one inference.

        Raises:
            ModelError: feeds of another name, shape or element type.
            SimulationError: no such engine, or the program broke a rule of the machine.
            DeviceError: a tool that the engine needs is missing.
        """
        memory = memory or MemoryModel()
        device = open_engine(engine, self.config, memory=memory)
        served = simulate(self.program, [dict(feeds)], device, all_tensors=tensors)
        execution = served.executions[0]
        return Run(
            execution.outputs, report_of(self.program, served, engine, memory), execution.tensors
        )

    def save(self, path: Path | str) -> None:
        """Write a `.twp` file that `load_program` reads.

        Raises:
            ModelError: the file cannot be written.
        """
        self.program.save(path)


def report_of(
    program: Program, served: Simulation, engine: str, memory: MemoryModel, command: str = ""
) -> Report:
    """Return the report of requests that an engine served."""
    return build_report(
        bounded_by(program, memory),
        served.executions,
        engine=engine,
        target=DEFAULT_TARGET,
        memory=None if engine == "functional" else memory.to_dict(),
        wall_seconds=served.wall_seconds,
        cpu_seconds=served.cpu_seconds,
        command=command,
    )


def bounded_by(program: Program, memory: MemoryModel) -> Program:
    """Return the program with its bounds for the beats a cycle of a memory.

    Raises:
        ModelError: the memory is not the default's speed, and the program holds no model.
    """
    if memory.beats == 1:
        return program
    graph = reference_graph(program)
    bounds = node_bounds(graph, program.config, beats=memory.beats)
    layers = tuple(
        replace(layer, bound_cycles=bounds[layer.name].cycles, bound=bounds[layer.name].limit)
        for layer in program.layers
    )
    floor = floor_cycles(graph, program.config, beats=memory.beats)
    return replace(program, layers=layers, floor_cycles=floor)


def compile(  # noqa: A001  (the public name; nothing here needs the builtin)
    model: Graph | Path | str,
    *,
    config: Config | str = DEFAULT_CONFIG,
    target: str = DEFAULT_TARGET,
    shapes: Mapping[str, int] | None = None,
    dump: Path | None = None,
) -> Executable:
    """Compile a model for a config; `shapes` sizes symbolic dimensions, 1 where it is silent.

    `dump` is a folder for the readable text of every stage.

    Raises:
        ModelError: the model cannot be read, or has an operator that nothing can run.
        ConfigError: the config cannot be built.
        CompileError: the model does not fit the config, or the target is not available.
    """
    check_target(target)
    graph = model if isinstance(model, Graph) else load(model)
    machine = config if isinstance(config, Config) else Config.parse(config)
    types = {value.name: value.type for value in graph.inputs}
    bound = bind_shapes(graph.ir, infer_shapes(types, {}, shapes or {}))
    return Executable(compile_graph(bound, machine, model=graph.ir.model, dump=dump))


def check_target(target: str) -> None:
    """Check a list of targets.

    Raises:
        CompileError: a target that is not available.
    """
    if target != DEFAULT_TARGET:
        raise CompileError(f"target {target!r}: not available; choose {DEFAULT_TARGET}")


def load_program(path: Path | str, *, config: Config | None = None) -> Executable:
    """Read a `.twp` file; with a config, check that the program was made for it.

    Raises:
        ModelError: not a program file, damaged, or of another format or ISA version.
        ConfigError: made for another config.
    """
    program = program_file.load_program(path)
    made_for = program.config
    if config is not None and config.config_hash != made_for.config_hash:
        raise ConfigError(
            f"{path}: made for config {made_for.name} ({made_for.config_hash:016x}), not for"
            f" {config.name} ({config.config_hash:016x}); compile the model for {config.name}"
        )
    return Executable(program)


@dataclass(slots=True)
class InferenceSession:
    """A model behind onnxruntime's call: `session.run(None, {"input": x})` gives a list.

    It compiles for the shapes of each request and keeps what it compiled.
    """

    path: Path | str
    config: Config | str = DEFAULT_CONFIG
    engine: str = "rtl"
    _graph: Graph = field(init=False)
    _compiled: dict[tuple[tuple[str, int], ...], Executable] = field(
        init=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        """Read the model; errors as `load`."""
        check_engine(self.engine)
        self._graph = load(self.path)

    def run(self, output_names: Sequence[str] | None, feeds: Mapping[str, Array]) -> list[Array]:
        """Return the outputs named, or all of them in the model's order.

        Raises:
            ModelError: an unknown output, or feeds of another name, shape or element type.
        """
        names = [value.name for value in self._graph.outputs]
        for name in output_names or ():
            if name not in names:
                raise ModelError(
                    f"output {name!r}: no such output; the model's are {', '.join(names)}"
                )
        arrays = {name: np.asarray(value) for name, value in feeds.items()}
        types = {value.name: value.type for value in self._graph.inputs}
        shapes = infer_shapes(types, arrays, {})
        key = tuple(sorted(shapes.items()))
        if key not in self._compiled:
            self._compiled[key] = compile(self._graph, config=self.config, shapes=shapes)
        outputs = self._compiled[key].run(arrays, engine=self.engine).outputs
        return [outputs[name] for name in output_names or names]
