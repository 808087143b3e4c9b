"""The `tilewright` command: its sub-commands, and errors as one line."""

import os
import sys
from collections.abc import Sequence

import click

from tilewright.commands.compile import compile_command
from tilewright.commands.config import config_group
from tilewright.commands.demo import demo_command
from tilewright.commands.doctor import doctor_command
from tilewright.commands.generate import generate_command
from tilewright.commands.inspect import inspect_command
from tilewright.commands.simulate import simulate_command
from tilewright.commands.terminal import BAD_INPUT, SUCCESS

INTERRUPTED = 130
BROKEN_PIPE = 141


@click.group(
    invoke_without_command=True,
    context_settings={"max_content_width": 100},
)
@click.version_option(package_name="tilewright")
@click.pass_context
def cli(context: click.Context) -> None:
    """One description of a machine gives its hardware, its simulators and its compiler.

    Start with `tilewright demo`; `tilewright COMMAND --help` shows an example of each command.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for _command in (
    demo_command,
    simulate_command,
    compile_command,
    inspect_command,
    generate_command,
    config_group,
    doctor_command,
):
    cli.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit: 0 success, 1 a check failed, 2 bad input."""
    try:
        status = cli.main(arguments, prog_name="tilewright", standalone_mode=False)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        path = context.command_path if context else "tilewright"
        message = error.format_message().rstrip(".")
        click.echo(f"error: {message}; see `{path} --help`", err=True)
        status = BAD_INPUT
    except click.Abort:
        click.echo("error: interrupted", err=True)
        status = INTERRUPTED
    except BrokenPipeError:
        # The reader of a pipe has gone; the interpreter must not try to flush to it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = BROKEN_PIPE
    sys.exit(status or SUCCESS)
