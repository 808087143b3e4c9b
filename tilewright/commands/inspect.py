"""`tilewright inspect`."""

from pathlib import Path

import click

from tilewright import listing
from tilewright.api import DEFAULT_TARGET
from tilewright.commands.sources import config_option, open_source, shape_option
from tilewright.commands.terminal import Terminal, command
from tilewright.feeds import infer_shapes, parse_shapes
from tilewright.tables import print_layers, print_plan


@click.command("inspect", short_help="Show graph, placement, memory plan and disassembly.")
@click.argument("model", type=Path)
@config_option
@shape_option
@command
def inspect_command(
    terminal: Terminal, model: Path, config: str | None, shapes: tuple[str, ...]
) -> None:
    """Show what MODEL (an .onnx model or a .twp program) becomes on a config.

    The graph, where every operator runs and why, the memory plan, the steps and the
    disassembly.

    \b
    Example:
      tilewright inspect lenet5.onnx --config tiny
    """  # noqa: D301  (the escape is click's mark for text it must not wrap)
    source = open_source(model, config)
    sizes = infer_shapes(source.types, {}, parse_shapes(shapes))
    program = source.compiled(config=config, target=DEFAULT_TARGET, shapes=sizes).program
    lines = listing.disassembly(program)
    terminal.write_json(
        {
            **listing.program_summary(program),
            "graph": str(source.graph) if source.graph else None,
            "memory_plan": listing.memory_plan(program),
            "steps": list(listing.steps(program)),
            "disassembly": lines,
        }
    )
    if source.graph:
        terminal.print(f"{source.graph}\n")
    print_layers(terminal.console, program)
    print_plan(terminal.console, program)
    for line in ("steps", *(f"  {step}" for step in listing.steps(program)), "", "code", *lines):
        terminal.print(line)
