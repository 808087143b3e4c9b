"""The `tilewright` command: its sub-commands, and errors as one line."""

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module

import click

from tilewright.commands.terminal import BAD_INPUT, SUCCESS

COMMANDS = {
    "demo": "demo_command",
    "simulate": "simulate_command",
    "compile": "compile_command",
    "inspect": "inspect_command",
    "generate": "generate_command",
    "config": "config_group",
    "doctor": "doctor_command",
}
"""Names of the commands, each with what its module of `tilewright.commands` calls it."""

INTERRUPTED = 130
BROKEN_PIPE = 141
FULL = (errno.ENOSPC, errno.EDQUOT)


class _LazyGroup(click.Group):
    """Imports a command when it is called, so that none waits for the libraries of another."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  (click's signature)
        """Return the names in the order of `COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  (click's)
        """Return a command, or None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"tilewright.commands.{cmd_name}")
        command: click.Command = getattr(module, COMMANDS[cmd_name])
        return command


@click.group(
    cls=_LazyGroup,
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


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit: 0 success, 1 a check failed, 2 bad input."""
    try:
        status = cli.main(arguments, prog_name="tilewright", standalone_mode=False)
        sys.stdout.flush()
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
        _abandon_stdout()
        status = BROKEN_PIPE
    except OSError as error:
        if error.errno not in FULL:
            raise
        _abandon_stdout()
        click.echo(f"error: standard output: cannot be written ({error.strerror})", err=True)
        status = BAD_INPUT
    sys.exit(status or SUCCESS)


def _abandon_stdout() -> None:
    """Keep the interpreter from flushing to what cannot be written when it exits."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
