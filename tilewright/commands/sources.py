"""The options that name a model, a config and a run, and what they mean."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from tilewright import api
from tilewright.api import DEFAULT_CONFIG, DEFAULT_TARGET, PROGRAM_SUFFIX, Executable
from tilewright.compiler.ir import graph as ir
from tilewright.compiler.passes.bind_shapes import bind_shapes
from tilewright.feeds import (
    Feeds,
    infer_shapes,
    parse_shapes,
    random_feeds,
    read_feeds,
    split_samples,
)
from tilewright.hw.config import Config
from tilewright.hw.errors import ModelError
from tilewright.model import Graph, load, reference_graph
from tilewright.runtime.tensor import TensorType

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

config_option: Decorator = click.option(
    "--config",
    metavar="C",
    help=f"A preset, a .toml file, or either followed by ,key=value,…  [default: {DEFAULT_CONFIG}]",
)
shape_option: Decorator = click.option(
    "--shape",
    "shapes",
    multiple=True,
    metavar="N=1",
    help="Size of a symbolic dimension.  [default: from the input, else 1]",
)
target_option: Decorator = click.option(
    "--target",
    default=DEFAULT_TARGET,
    show_default=True,
    metavar="T",
    help="Where operators may run, in order of preference.",
)


@dataclass(frozen=True, slots=True)
class Source:
    """What a MODEL argument names: a model to compile, or a program made before."""

    path: Path
    graph: Graph | None
    executable: Executable | None

    @property
    def types(self) -> dict[str, TensorType]:
        """Types of the inputs by name; dimensions of a model may be symbols."""
        if self.graph is not None:
            return {value.name: value.type for value in self.graph.inputs}
        program = self._made().program
        return {name: program.tensor(name).type for name in program.inputs}

    def _made(self) -> Executable:
        assert self.executable is not None
        return self.executable

    def reference(self, sizes: dict[str, int]) -> ir.Graph:
        """Return the graph that results are checked against, its symbols replaced by sizes.

        Raises:
            ModelError: the program holds no model.
        """
        if self.graph is not None:
            return bind_shapes(self.graph.ir, sizes)
        return reference_graph(self._made().program)

    def compiled(
        self,
        *,
        config: str | None,
        target: str,
        shapes: dict[str, int],
        dump: Path | None = None,
    ) -> Executable:
        """Return the program, compiled now unless it was made before."""
        if self.graph is None:
            return self._made()
        return api.compile(
            self.graph, config=config_or_default(config), target=target, shapes=shapes, dump=dump
        )


def config_or_default(config: str | None) -> str:
    """Return what `--config` was given, an empty text too, or its default."""
    return DEFAULT_CONFIG if config is None else config


def open_source(path: Path, config: str | None) -> Source:
    """Read a `.onnx` model or a `.twp` program; a program must have been made for `config`.

    Raises:
        ModelError: neither of the two, or damaged.
        ConfigError: the config cannot be built, or is not the program's.
    """
    machine = Config.parse(config_or_default(config))
    if path.suffix == PROGRAM_SUFFIX:
        wanted = None if config is None else machine
        return Source(path, None, api.load_program(path, config=wanted))
    return Source(path, load(path), None)


def samples_of(
    source: Source,
    *,
    input_path: Path | None,
    samples: int,
    seed: int,
    shapes: Sequence[str],
) -> tuple[list[Feeds], dict[str, int]]:
    """Return the inputs of every sample and the size of every symbolic dimension.

    Raises:
        ModelError: an input file or shape that does not fit the model.
    """
    types, given = source.types, parse_shapes(shapes)
    if input_path is None:
        sizes = infer_shapes(types, {}, given)
        bound = {name: bind_type(kind, sizes) for name, kind in types.items()}
        return random_feeds(bound, samples=samples, seed=seed), sizes
    feeds = split_samples(types, read_feeds(input_path), samples)
    return feeds, infer_shapes(types, feeds[0], given)


def bind_type(kind: TensorType, sizes: dict[str, int]) -> TensorType:
    """Return a type with its symbols replaced by sizes."""
    shape = tuple(sizes[dim] if isinstance(dim, str) else dim for dim in kind.shape)
    return TensorType(kind.dtype, shape, kind.quantization)


def check_samples(samples: int) -> None:
    """Check a number of samples.

    Raises:
        ModelError: it is not positive.
    """
    if samples < 1:
        raise ModelError(f"--samples {samples}: give at least 1")
