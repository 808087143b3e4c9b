"""`tilewright config list | show | check`."""

import dataclasses
from typing import Any

import click

from tilewright.commands.terminal import Terminal, command
from tilewright.hw import isa
from tilewright.hw.config import Config, describe_legal, preset_names
from tilewright.hw.resources import PARTS, estimate
from tilewright.tables import print_rows


@click.group("config")
def config_group() -> None:
    """Presets and configs: list, show, check."""


@config_group.command("list")
@command
def list_command(terminal: Terminal) -> None:
    """List the presets.

    \b
    Example:
      tilewright config list
    """  # noqa: D301  (the escape is click's mark for text it must not wrap)
    presets = [Config.preset(name) for name in preset_names()]
    terminal.write_json({"presets": {each.name: derived_sizes(each) for each in presets}})
    print_rows(
        terminal.console,
        "presets",
        ("preset", "batch×in×out", "MACs a cycle", "memory KiB", "AXI bits", "RAM36", "DSP"),
        [
            (
                each.name,
                f"{each.batch}×{each.block_in}×{each.block_out}",
                str(each.peak_macs_per_cycle),
                str(sum(getattr(each, f"{memory}_kib") for memory in each.tile_bytes())),
                str(each.axi_data_bits),
                f"{estimate(each).ram36:g}",
                str(estimate(each).multipliers),
            )
            for each in presets
        ],
    )


@config_group.command("show")
@click.argument("config")
@command
def show_command(terminal: Terminal, config: str) -> None:
    """Show the fields of CONFIG, what follows from them, and an estimate of its size.

    \b
    Example:
      tilewright config show pynq-z1,block_out=32
    """  # noqa: D301  (the escape is click's mark for text it must not wrap)
    machine = Config.parse(config)
    sizes = derived_sizes(machine)
    terminal.write_json(
        {
            "config": dataclasses.asdict(machine),
            "config_hash": f"{machine.config_hash:016x}",
            "derived": sizes,
            "encoding": encoding(),
        }
    )
    print_rows(
        terminal.console,
        f"config {machine.name} ({machine.config_hash:016x})",
        ("field", "value", "legal", "meaning"),
        [
            (
                field.name,
                str(getattr(machine, field.name)),
                describe_legal(field.metadata["legal"]) if field.metadata["legal"] else "",
                field.metadata["doc"],
            )
            for field in dataclasses.fields(Config)
        ],
        left=4,
    )
    print_rows(
        terminal.console, "derived", ("size", "value"), [(k, str(v)) for k, v in sizes.items()]
    )
    print_rows(
        terminal.console,
        "encoding, one for every config",
        ("word", "bits used", "of"),
        [(name, str(used), str(size)) for name, (used, size) in encoding().items()],
    )


@config_group.command("check")
@click.argument("config")
@command
def check_command(terminal: Terminal, config: str) -> None:
    """Say whether CONFIG can be built, or which rule it breaks and what would satisfy it.

    \b
    Example:
      tilewright config check my.toml,block_in=64
    """  # noqa: D301  (the escape is click's mark for text it must not wrap)
    machine = Config.parse(config)
    terminal.write_json({"legal": True, "config_hash": f"{machine.config_hash:016x}"})
    terminal.print(f"config {machine.name}: can be built ({machine.config_hash:016x})")


def derived_sizes(config: Config) -> dict[str, Any]:
    """Return what follows from a config's fields."""
    resources = estimate(config)
    return {
        "peak_macs_per_cycle": config.peak_macs_per_cycle,
        "channel_lanes": config.channel_lanes,
        "axi_bytes": config.axi_bytes,
        **{f"{memory}_tile_bytes": size for memory, size in config.tile_bytes().items()},
        **{f"{memory}_depth": depth for memory, depth in config.depths().items()},
        "estimated_ram36": resources.ram36,
        "estimated_multipliers": resources.multipliers,
        **{f"estimated_share_{part.name}": round(resources.share_of(part), 3) for part in PARTS},
    }


def encoding() -> dict[str, tuple[int, int]]:
    """Return bits used and bits available of every word of the ISA."""
    sizes = {"uop": isa.UOP_BITS, "parameter": isa.PARAMETER_BITS}
    used = {
        word.__name__.lower(): max(field.offset + field.bits for field in isa.layout(word))
        for word in (*isa.INSTRUCTIONS, isa.Uop, isa.Parameter)
    }
    return {name: (bits, sizes.get(name, isa.INSTRUCTION_BITS)) for name, bits in used.items()}
