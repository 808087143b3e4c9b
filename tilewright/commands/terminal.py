"""What every command shares: its options, its output, its errors and exit status."""

import functools
import json
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tilewright.hw.config import Config
from tilewright.hw.errors import Error
from tilewright.outputs import STDOUT, check_writable
from tilewright.runtime.files import write_whole

SUCCESS, CHECK_FAILED, BAD_INPUT = 0, 1, 2
QUICK_MACS = 512
"""A simulator of no more multiply-accumulates a cycle is built within a minute."""

PIPE_WIDTH = 160
"""Columns of tables that go to a file or pipe, where nothing says how wide they may be."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """Where a command's results go: tables to `console`, JSON where `--json` says."""

    console: Console
    json_path: Path | None

    def print(self, text: str) -> None:
        """Print a line as it is: no markup, no wrapping."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def write_json(self, result: dict[str, Any]) -> None:
        """Write the command's result where `--json` asked for it.

        Raises:
            ModelError: the file cannot be written.
        """
        if self.json_path is None:
            return
        text = json.dumps(result, indent=1) + "\n"
        if str(self.json_path) == STDOUT:
            click.echo(text, nl=False)
        else:
            write_whole(self.json_path, text.encode())

    @contextmanager
    def progress(self, what: str, total: int) -> Iterator[Callable[[int], None]]:
        """Show a bar on a terminal, nothing elsewhere; the yielded function sets what is done."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        with Progress(
            *columns, console=Console(stderr=True), transient=True, disable=not self._is_watched
        ) as bar:
            task = bar.add_task(what, total=total)
            yield lambda done: bar.update(task, completed=done)

    def building(self, config: Config) -> AbstractContextManager[object]:
        """Show on a terminal that the simulator of a config is being built, nothing elsewhere."""
        text = f"building the simulator of {config.name}, kept for the next time …"
        if config.peak_macs_per_cycle > QUICK_MACS:
            text += f" {config.peak_macs_per_cycle} multipliers take minutes"
        return Console(stderr=True).status(text) if self._is_watched else nullcontext()

    @property
    def _is_watched(self) -> bool:
        return not self.console.quiet and sys.stderr.isatty()


def command(function: Callable[..., int | None]) -> Callable[..., None]:
    """Add `--json --quiet --debug`, pass a `Terminal`, turn errors and results into exit statuses.

    The function returns None or an exit status.
    """

    @click.option(
        "--json",
        "json_path",
        type=Path,
        metavar="FILE",
        help="Write the result as JSON; - for standard output.",
    )
    @click.option("--quiet", is_flag=True, help="Print nothing but errors.")
    @click.option("--debug", is_flag=True, help="Show where an error was raised.")
    @functools.wraps(function)
    def wrapped(*, json_path: Path | None, quiet: bool, debug: bool, **options: Any) -> None:
        silent = quiet or str(json_path) == STDOUT
        width = None if sys.stdout.isatty() else PIPE_WIDTH
        terminal = Terminal(Console(quiet=silent, width=width), json_path)
        try:
            check_writable(json_path)
            status = function(terminal, **options)
        except Error as error:
            if debug:
                traceback.print_exc()
            click.echo(f"error: {error}", err=True)
            status = BAD_INPUT
        click.get_current_context().exit(status or SUCCESS)

    return wrapped
