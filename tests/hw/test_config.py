import dataclasses
from pathlib import Path

import pytest

from tilewright.hw.config import Config, preset_names
from tilewright.hw.errors import ConfigError


def message_of(**fields: object) -> str:
    with pytest.raises(ConfigError) as caught:
        Config(**fields)
    return str(caught.value)


def test_presets_are_the_documented_ones() -> None:
    assert preset_names() == ["large", "pynq-z1", "pynq-z2", "tiny", "ultra96"]
    for name in preset_names():
        assert Config.preset(name).name == name


def test_default_sizes_follow_from_the_fields() -> None:
    config = Config()
    assert config.tile_bytes() == {
        "uop": 8,
        "input": 16,
        "weight": 256,
        "accumulator": 64,
        "parameter": 128,
    }
    assert config.depths() == {
        "uop": 4096,
        "input": 2048,
        "weight": 1024,
        "accumulator": 2048,
        "parameter": 256,
    }
    assert config.output_tile_bytes == 16
    assert config.axi_bytes == 8
    assert config.peak_macs_per_cycle == 256


def test_unequal_blocks_split_tiles_into_sub_tiles() -> None:
    config = Config(batch=4, block_in=8, block_out=32)
    assert (config.sub_lanes, config.channel_lanes) == (8, 32)
    assert config.input_tile_bytes == 4 * 8
    assert config.output_tile_bytes == 4 * 32
    assert config.accumulator_tile_bytes == 4 * 4 * 32


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"batch": 3}, "config custom: batch=3 is not legal; choose 1, 2, 4, 8, 16"),
        ({"axi_outstanding": 0}, "config custom: axi_outstanding=0 is not legal; choose 1 to 32"),
        ({"block_in": True}, "config custom: block_in=True is not of type int"),
        ({"block_in": "16"}, "config custom: block_in='16' is not of type int"),
        (
            {"block_in": 64, "block_out": 64, "weight_kib": 4},
            "config custom: weight_kib=4 holds 1 tiles of 4096 bytes; choose 8 to 262144 KiB",
        ),
        (
            {"uop_kib": 512, "input_kib": 2048},
            "config custom: input_kib=2048 holds 131072 tiles of 16 bytes; choose 1 to 1024 KiB",
        ),
        (
            {"block_in": 64, "block_out": 4, "weight_kib": 4, "alu_lanes": 4, "output_lanes": 4},
            "config custom: weight_kib=4 holds 16 tiles of 256 bytes; choose 8 to 16384 KiB",
        ),
        (
            {"name": "a'\nb"},
            'config name "a\'\\nb": use letters, digits and . _ - alone, at least one',
        ),
        (
            {"output_lanes": 32},
            "config custom: output_lanes=32 exceeds the 16 lanes it serves; choose at most 16",
        ),
        (
            {"input_bits": 4},
            "config custom: input_bits=4, weight_bits=8, accumulator_bits=32 cannot be built yet;"
            " choose 8, 8, 32",
        ),
        ({"batch": 8}, "config custom: batch=8 cannot be built yet; choose at most 4"),
    ],
)
def test_impossible_config_names_the_rule_and_a_legal_value(
    fields: dict[str, object], message: str
) -> None:
    assert message_of(**fields) == message


def test_toml_round_trip_keeps_every_field() -> None:
    config = Config.preset("ultra96").replace(batch=2, axi_address_bits=44)
    assert Config.from_toml(config.to_toml()) == config


def test_toml_with_an_unknown_field_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"config custom: unknown field 'blok'; known: accumul"):
        Config.from_toml("blok = 1")


def test_text_that_is_not_toml_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"config mine: not valid TOML .*; write lines of"):
        Config.from_toml("batch: 1", name="mine")


def test_parse_changes_a_preset() -> None:
    config = Config.parse("tiny,batch=2,axi_data_bits=128")
    assert config == Config.preset("tiny").replace(batch=2, axi_data_bits=128)


def test_parse_takes_changes_alone(tmp_path) -> None:
    assert Config.parse("block_in=8") == Config(block_in=8)
    path = tmp_path / "mine.toml"
    path.write_text("block_out = 32\n")
    assert Config.parse(f"{path},batch=2") == Config(name="mine", block_out=32, batch=2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pinq", "config 'pinq': no such preset; choose large, pynq-z1, pynq-z2, tiny, ultra96"),
        ("tiny,batch", "config 'tiny,batch': 'batch' is not key=value; write e.g. block_in=32"),
        ("tiny,batch=two", "config tiny: batch='two' is not a whole number"),
        ("", "config '': no such preset; choose large, pynq-z1"),
        (
            "tiny,block_in=8,block_in=16",
            "config 'tiny,block_in=8,block_in=16': block_in is given twice; give it once",
        ),
        ("absent.toml", "config absent.toml: cannot be read (No such file or directory)"),
    ],
)
def test_parse_names_what_it_cannot_read(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Config.parse(text)
    assert str(caught.value).startswith(message)


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"mine\.toml: not UTF-8 text; write it as UTF-8$"):
        Config.parse(str(path))


def test_an_error_is_one_line_whatever_the_name_is() -> None:
    with pytest.raises(ConfigError, match=r"^config 'a\\nb': unknown field 'blok'; known: [^\n]*$"):
        Config.from_toml('name = "a\\nb"\nblok = 1')


def test_a_file_may_have_a_name_that_a_config_may_not(tmp_path: Path) -> None:
    path = tmp_path / "my first 'one'.toml"
    path.write_text("batch = 2\n")
    assert Config.parse(str(path)).name == "my-first-one"


def test_hash_depends_on_the_machine_alone() -> None:
    config = Config()
    assert config.config_hash == config.replace(name="other", clock_mhz=50).config_hash
    numbers = {
        field.name: field.metadata["legal"]
        for field in dataclasses.fields(Config)
        if field.name in config.machine_fields()
    }
    hashes = {config.config_hash}
    for name in ("axi_outstanding", "queue_depth", "input_kib", "accumulator_banks"):
        other = next(value for value in numbers[name] if value not in (getattr(config, name), 1))
        hashes.add(config.replace(**{name: other}).config_hash)
    assert len(hashes) == 5


def test_config_is_immutable_and_hashable() -> None:
    config = Config()
    assert {config: 1}[Config()] == 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.batch = 2
