"""The generated SystemVerilog package against the Python tables."""

import re
from pathlib import Path

import pytest

from tilewright.hw import isa, registers, verilog
from tilewright.hw.config import Config, preset_names
from tilewright.hw.isa import AluOp, Memory, Opcode, Parameter, Uop

CONSTANT = re.compile(r"localparam (?:integer|\[[^\]]+\]) (\w+) = (?:\d+'(h|d))?([0-9a-f]+);")


def constants(config: Config) -> dict[str, int]:
    text = verilog.package(config)
    found = [(n, int(v, 16 if base == "h" else 10)) for n, base, v in CONSTANT.findall(text)]
    assert len(dict(found)) == len(found) == text.count("localparam")
    return dict(found)


@pytest.mark.parametrize("name", preset_names())
def test_package_has_the_sizes_of_the_config(name: str) -> None:
    config = Config.preset(name)
    values = constants(config)
    for field, value in config.machine_fields().items():
        if not field.endswith("_kib"):
            assert values[field.upper()] == value
    for memory, depth in config.depths().items():
        assert values[f"{memory.upper()}_DEPTH"] == depth
        assert values[f"{memory.upper()}_TILE_BYTES"] == config.tile_bytes()[memory]
    assert values["CONFIG_HASH"] == config.config_hash


def test_package_has_the_layout_of_every_word() -> None:
    values = constants(Config())
    for word in (*isa.INSTRUCTIONS, Uop, Parameter):
        for field in isa.layout(word):
            name = f"{word.__name__}_{field.name}".upper()
            assert (values[f"{name}_LSB"], values[f"{name}_W"]) == (field.offset, field.bits)


def test_package_has_the_codes_and_the_register_map() -> None:
    values = constants(Config())
    assert values["ID_VALUE"] == registers.ID_VALUE
    for enum, prefix in ((Opcode, "OPCODE"), (Memory, "MEMORY"), (AluOp, "ALU_OP")):
        for member in enum:
            assert values[f"{prefix}_{member.name}"] == member.value
    for name, register in registers.REGISTERS.items():
        assert values[f"REG_{name.upper()}"] == register.address


def test_config_name_is_the_only_difference_between_equal_machines() -> None:
    first = verilog.package(Config(name="one")).splitlines()
    second = verilog.package(Config(name="two")).splitlines()
    assert [a for a, b in zip(first, second, strict=True) if a != b] == [
        "// Generated from config one; do not edit."
    ]


def test_written_sources_are_the_package_and_every_module(tmp_path: Path) -> None:
    paths = verilog.write_sources(Config(), tmp_path / "rtl")
    names = [path.name for path in paths]
    assert names[0] == f"{verilog.PACKAGE}.sv"
    assert f"{verilog.TOP}.sv" in names
    assert paths[0].read_text() == verilog.package(Config())
    for path in paths[1:]:
        assert f"module {path.stem}" in path.read_text()
