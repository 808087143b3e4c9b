"""`tilewright compile`."""

from pathlib import Path

import click

from tilewright.api import PROGRAM_SUFFIX, check_target
from tilewright.api import compile as compile_model
from tilewright.commands.sources import (
    config_option,
    config_or_default,
    shape_option,
    target_option,
)
from tilewright.commands.terminal import Terminal, command
from tilewright.feeds import infer_shapes, parse_shapes
from tilewright.hw.config import Config
from tilewright.hw.errors import ModelError
from tilewright.listing import program_summary
from tilewright.model import load
from tilewright.outputs import check_folder, check_results
from tilewright.tables import print_layers


@click.command("compile", short_help="Compile a model to a program file.")
@click.argument("model", type=Path)
@click.option(
    "-o", "--output", type=Path, required=True, metavar="P.twp", help="Program file to write."
)
@config_option
@target_option
@shape_option
@click.option("--dump", type=Path, metavar="DIR", help="Write the readable text of every stage.")
@command
def compile_command(
    terminal: Terminal,
    model: Path,
    output: Path,
    config: str | None,
    target: str,
    shapes: tuple[str, ...],
    dump: Path | None,
) -> None:
    """Compile MODEL ahead of time; `simulate` and `inspect` take the program.

    \b
    Example:
      tilewright compile lenet5.onnx -o lenet5.twp --config pynq-z1 --dump stages
    """  # noqa: D301  (the escape is click's mark for text it must not wrap)
    check_target(target)
    if output.suffix != PROGRAM_SUFFIX:
        raise ModelError(f"{output}: a program's name ends in {PROGRAM_SUFFIX}")
    check_results({"--output": output}, json_path=terminal.json_path)
    check_folder(dump)
    machine = Config.parse(config_or_default(config))
    graph = load(model)
    types = {value.name: value.type for value in graph.inputs}
    sizes = infer_shapes(types, {}, parse_shapes(shapes))
    made = compile_model(graph, config=machine, target=target, shapes=sizes, dump=dump)
    made.save(output)
    summary = program_summary(made.program)
    terminal.write_json({"program": str(output), **summary})
    print_layers(terminal.console, made.program)
    terminal.print(
        f"{output}: {len(made.program.code)} instructions, {made.program.constants.size:,} bytes"
        f" of constants, for config {machine.name} ({machine.config_hash:016x})"
    )
