"""`Config`: the one description of a machine, and the rules that make it buildable.

Hardware, simulators and compiler take every size from here.  Fields carry their legal
values as metadata, so that checks, `tilewright config` and the documentation agree.
"""

import dataclasses
import hashlib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tilewright.hw.errors import ConfigError

PRESETS = Path(__file__).parent / "presets"

UOP_BYTES = 8
PARAMETER_BYTES = 8
ACCUMULATOR_BYTES = 4
_NAME = re.compile(r"[A-Za-z0-9._-]+")

MAX_INDEX = 1 << 16
"""Scratchpad addresses are 16-bit fields, so no memory holds more tiles."""


def _powers(low: int, high: int) -> tuple[int, ...]:
    return tuple(1 << k for k in range(low.bit_length() - 1, high.bit_length()))


def _field(default: int | str, legal: tuple[int, ...] | range | None, doc: str) -> Any:
    return dataclasses.field(default=default, metadata={"legal": legal, "doc": doc})


@dataclass(frozen=True, slots=True)
class Config:
    """A tensor accelerator, immutable and hashable.

    Sizes named `_kib` are KiB, `_bits` bits; everything else counts elements.

    Raises:
        ConfigError: a value outside its legal set, or a combination that cannot be built.
    """

    name: str = _field(
        "custom", None, "label in reports (letters, digits, . _ -); no part of the machine"
    )
    batch: int = _field(1, _powers(1, 16), "rows of an input and accumulator tile")
    block_in: int = _field(16, _powers(4, 64), "input channels of a tile (reduction lanes)")
    block_out: int = _field(16, _powers(4, 64), "output channels of a tile")
    input_bits: int = _field(8, (2, 4, 8), "bits of an input element")
    weight_bits: int = _field(8, (2, 4, 8), "bits of a weight element")
    accumulator_bits: int = _field(32, (24, 32), "bits of an accumulator")
    uop_kib: int = _field(32, _powers(1, 512), "micro-op memory")
    input_kib: int = _field(32, _powers(1, 65536), "input scratchpad")
    weight_kib: int = _field(256, _powers(1, 262144), "weight scratchpad")
    accumulator_kib: int = _field(128, _powers(1, 262144), "accumulator scratchpad")
    parameter_kib: int = _field(32, _powers(1, 4096), "output-stage parameters, 8 bytes a channel")
    axi_data_bits: int = _field(64, _powers(32, 512), "width of the AXI4 data channels")
    axi_address_bits: int = _field(32, range(32, 65), "width of the AXI4 addresses")
    axi_outstanding: int = _field(8, range(1, 33), "bursts the load engine keeps in flight")
    axi_burst_beats: int = _field(16, range(1, 257), "longest burst (AXI3 ports: at most 16)")
    queue_depth: int = _field(32, _powers(2, 256), "instructions each engine's queue holds")
    accumulator_banks: int = _field(2, (2, 4, 8), "independent accumulator banks")
    alu_lanes: int = _field(16, _powers(1, 1024), "ALU elements a cycle")
    output_lanes: int = _field(8, _powers(1, 1024), "output-stage elements a cycle")
    clock_mhz: int = _field(100, range(1, 1001), "assumed clock, for milliseconds only")

    def __post_init__(self) -> None:
        """Check every field, then the combinations, and raise on the first that is broken."""
        problems = self.problems()
        if problems:
            raise ConfigError(problems[0])

    def problems(self) -> list[str]:
        """Return every broken rule as one line; empty for a machine that can be built."""
        found = [line for line in map(self._field_problem, dataclasses.fields(self)) if line]
        return found or self._combination_problems()

    def _field_problem(self, field: dataclasses.Field[Any]) -> str | None:
        value, legal = getattr(self, field.name), field.metadata["legal"]
        if type(value) is not type(field.default):
            kind = type(field.default).__name__
            return f"config {self.name}: {field.name}={value!r} is not of type {kind}"
        if field.name == "name" and not _NAME.fullmatch(self.name):
            return f"config name {value!r}: use letters, digits and . _ - alone, at least one"
        if legal is None or value in legal:
            return None
        return (
            f"config {self.name}: {field.name}={value} is not legal; choose {describe_legal(legal)}"
        )

    def _combination_problems(self) -> list[str]:
        lines = []
        for memory, depth in self.depths().items():
            field = f"{memory}_kib"
            least = self._least_depth(memory)
            if not least <= depth <= MAX_INDEX:
                size = self.tile_bytes()[memory]
                lines.append(
                    f"config {self.name}: {field}={getattr(self, field)} holds {depth} tiles"
                    f" of {size} bytes; choose {max(1, -(-least * size // 1024))} to"
                    f" {MAX_INDEX * size // 1024} KiB"
                )
        for field, most in (
            ("alu_lanes", self.batch * self.block_out),
            ("output_lanes", self.block_out),
        ):
            if getattr(self, field) > most:
                lines.append(
                    f"config {self.name}: {field}={getattr(self, field)} exceeds the {most} lanes"
                    f" it serves; choose at most {most}"
                )
        if (self.input_bits, self.weight_bits, self.accumulator_bits) != (8, 8, 32):
            lines.append(
                f"config {self.name}: input_bits={self.input_bits}, weight_bits={self.weight_bits},"
                f" accumulator_bits={self.accumulator_bits} cannot be built yet; choose 8, 8, 32"
            )
        if self.batch > 4:
            lines.append(
                f"config {self.name}: batch={self.batch} cannot be built yet; choose at most 4"
            )
        return lines

    def _least_depth(self, memory: str) -> int:
        """Entries for two smallest working sets, of one channel block, used in turn."""
        in_tiles = self.channel_lanes // self.block_in
        out_tiles = self.channel_lanes // self.block_out
        return (
            2
            * {
                "uop": 1,
                "input": in_tiles,
                "weight": in_tiles * out_tiles,
                "accumulator": max(self.accumulator_banks, out_tiles),
                "parameter": out_tiles,
            }[memory]
        )

    @property
    def sub_lanes(self) -> int:
        """Channels of a sub-tile: tiles lie in DRAM as [lanes / sub_lanes][BATCH][sub_lanes]."""
        return min(self.block_in, self.block_out)

    @property
    def channel_lanes(self) -> int:
        """U = max(block_in, block_out): channels of one DRAM channel block."""
        return max(self.block_in, self.block_out)

    @property
    def axi_bytes(self) -> int:
        """Bytes of one AXI beat."""
        return self.axi_data_bits // 8

    @property
    def input_tile_bytes(self) -> int:
        """Bytes of an input tile in DRAM and scratchpad."""
        return self.batch * self.block_in * self.input_bits // 8

    @property
    def weight_tile_bytes(self) -> int:
        """Bytes of a weight tile [BLOCK_OUT][BLOCK_IN]."""
        return self.block_out * self.block_in * self.weight_bits // 8

    @property
    def accumulator_tile_bytes(self) -> int:
        """Bytes of an accumulator tile of int32."""
        return self.batch * self.block_out * ACCUMULATOR_BYTES

    @property
    def output_tile_bytes(self) -> int:
        """Bytes of an accumulator tile once the output stage packed it to `input_bits`."""
        return self.batch * self.block_out * self.input_bits // 8

    @property
    def parameter_tile_bytes(self) -> int:
        """Bytes of the output-stage parameters of one accumulator tile's channels."""
        return self.block_out * PARAMETER_BYTES

    @property
    def peak_macs_per_cycle(self) -> int:
        """Multiply-accumulates of one uop."""
        return self.batch * self.block_in * self.block_out

    def tile_bytes(self) -> dict[str, int]:
        """Bytes of one scratchpad entry of each memory, keyed by memory name."""
        return {
            "uop": UOP_BYTES,
            "input": self.input_tile_bytes,
            "weight": self.weight_tile_bytes,
            "accumulator": self.accumulator_tile_bytes,
            "parameter": self.parameter_tile_bytes,
        }

    def depths(self) -> dict[str, int]:
        """Entries of each memory, keyed by memory name."""
        sizes = self.tile_bytes()
        return {
            memory: getattr(self, f"{memory}_kib") * 1024 // size for memory, size in sizes.items()
        }

    def replace(self, **changes: Any) -> Self:
        """Return a copy with fields changed.

        Raises:
            ConfigError: an unknown field or an illegal value.
        """
        known = {field.name for field in dataclasses.fields(self)}
        for key in changes:
            if key not in known:
                raise ConfigError(
                    f"config {self.name}: unknown field {key!r}; known: {', '.join(sorted(known))}"
                )
        return dataclasses.replace(self, **changes)

    def machine_fields(self) -> dict[str, int]:
        """Return the fields that make the machine: all but its name and assumed clock."""
        fields = dataclasses.asdict(self)
        return {key: value for key, value in fields.items() if key not in ("name", "clock_mhz")}

    @property
    def config_hash(self) -> int:
        """64-bit fingerprint of the machine, in the CONFIG_HASH register and every program."""
        text = ",".join(f"{key}={value}" for key, value in self.machine_fields().items())
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")

    def to_toml(self) -> str:
        """Return the config as TOML that `Config.from_toml` reads back equal."""
        fields = dataclasses.asdict(self)
        return "".join(
            f'{k} = "{v}"\n' if isinstance(v, str) else f"{k} = {v}\n" for k, v in fields.items()
        )

    @classmethod
    def from_toml(cls, text: str, *, name: str = "custom") -> Self:
        """Read a TOML table of fields; fields left out take their defaults.

        Raises:
            ConfigError: text that is not TOML, an unknown field or an illegal value.
        """
        try:
            table = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(
                f"config {name}: not valid TOML ({error}); write lines of field = value"
            ) from error
        return cls._from_table({"name": name, **table})

    @classmethod
    def _from_table(cls, table: Mapping[str, Any]) -> Self:
        known = {field.name for field in dataclasses.fields(cls)}
        for key in table:
            if key not in known:
                raise ConfigError(
                    f"config {_label(table['name'])}: unknown field {key!r};"
                    f" known: {', '.join(sorted(known))}"
                )
        return cls(**table)

    @classmethod
    def preset(cls, name: str) -> Self:
        """Return a packaged config by name.

        Raises:
            ConfigError: no preset of that name.
        """
        path = PRESETS / f"{name}.toml"
        if name not in preset_names():
            raise ConfigError(
                f"config {name!r}: no such preset;"
                f" choose {', '.join(preset_names())} or a .toml file"
            )
        return cls.from_toml(path.read_text(), name=name)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what `--config` takes: a preset or a .toml file, then `,key=value` changes.

        Raises:
            ConfigError: an unknown preset or file, an unknown field or an illegal value.
        """
        head, *changes = text.split(",")
        if head.endswith(".toml"):
            try:
                lines = Path(head).read_text("utf-8")
            except OSError as error:
                raise ConfigError(
                    f"config {head}: cannot be read ({error.strerror}); check the path"
                ) from error
            except UnicodeDecodeError as error:
                raise ConfigError(f"config {head}: not UTF-8 text; write it as UTF-8") from error
            stem = "-".join(_NAME.findall(Path(head).stem)) or "custom"
            config = cls.from_toml(lines, name=stem)
        elif "=" in head:
            config, changes = cls(), [head, *changes]
        else:
            config = cls.preset(head)
        values: dict[str, Any] = {}
        for change in changes:
            key, equals, value = change.partition("=")
            if not equals:
                raise ConfigError(
                    f"config {text!r}: {change!r} is not key=value; write e.g. block_in=32"
                )
            if key.strip() in values:
                raise ConfigError(f"config {text!r}: {key.strip()} is given twice; give it once")
            values[key.strip()] = _value(config.name, key.strip(), value.strip())
        return config.replace(**values) if values else config


def _value(config: str, key: str, text: str) -> int | str:
    if key == "name":
        return text
    try:
        return int(text)
    except ValueError:
        raise ConfigError(f"config {config}: {key}={text!r} is not a whole number") from None


def _label(name: object) -> str:
    """Return a config's name for an error, in quotes where it is no legal one."""
    return name if isinstance(name, str) and _NAME.fullmatch(name) else repr(name)


def preset_names() -> list[str]:
    """Return the names of the packaged configs."""
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def describe_legal(legal: tuple[int, ...] | range) -> str:
    """Return a field's legal values as text: `1 to 32` or `1, 2, 4`."""
    if isinstance(legal, range):
        return f"{legal.start} to {legal.stop - 1}"
    return ", ".join(map(str, legal))
