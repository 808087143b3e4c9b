"""`tilewright generate`."""

from pathlib import Path

import click

from tilewright.bench import source_files
from tilewright.commands.sources import config_option, config_or_default
from tilewright.commands.terminal import Terminal, command
from tilewright.hw.config import Config
from tilewright.hw.errors import ConfigError
from tilewright.outputs import check_folder, write_folder

FORMS = ("verilog",)


@click.command("generate", short_help="Write the accelerator's sources and a bench.")
@config_option
@click.option("--form", required=True, metavar="F", help=" or ".join(FORMS) + ".")
@click.option("-o", "--output", type=Path, required=True, metavar="DIR", help="Folder to write.")
@command
def generate_command(terminal: Terminal, config: str | None, form: str, output: Path) -> None:
    """Write the sources of a config's accelerator, and a test bench that `make` runs there.

    \b
    Example:
      tilewright generate --config tiny --form verilog -o rtl && make -C rtl
    """  # noqa: D301  (the escape is click's mark for text it must not wrap)
    if form not in FORMS:
        raise ConfigError(f"form {form!r}: not available; choose {' or '.join(FORMS)}")
    machine = Config.parse(config_or_default(config))
    check_folder(output)
    paths = write_folder(output, source_files(machine))
    terminal.write_json({"folder": str(output), "files": [path.name for path in paths]})
    terminal.print(f"{output}: {len(paths)} files for config {machine.name}; make -C {output}")
