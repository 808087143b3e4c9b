"""`tilewright doctor`."""

import dataclasses

import click

from tilewright.commands.terminal import CHECK_FAILED, SUCCESS, Terminal, command
from tilewright.doctor import run_checks
from tilewright.report import versions
from tilewright.sim.rtl.build import default_cache
from tilewright.tables import print_rows


@click.command("doctor", short_help="Say what this machine can do, and what is missing.")
@command
def doctor_command(terminal: Terminal) -> int:
    """Check the tools that tilewright uses, what each is for and how to get it.

    Exits 1 when something is missing that a command needs.

    \b
    Example:
      tilewright doctor
    """  # noqa: D301  (the escape is click's mark for text it must not wrap)
    checks = run_checks(default_cache())
    terminal.write_json(
        {
            "checks": [{**dataclasses.asdict(check), "ok": check.ok} for check in checks],
            "versions": versions(),
        }
    )
    print_rows(
        terminal.console,
        "doctor",
        ("tool", "status", "for", "found, or how to get it"),
        [
            (
                check.name,
                "ok" if check.ok else "MISSING" if check.required else "optional, missing",
                check.purpose,
                check.found or check.remedy,
            )
            for check in checks
        ],
        left=4,
    )
    return SUCCESS if all(check.ok for check in checks if check.required) else CHECK_FAILED
