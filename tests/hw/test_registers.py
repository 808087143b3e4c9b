from tilewright.hw.isa import Segment
from tilewright.hw.registers import (
    CAUSES,
    ENGINES,
    ID_VALUE,
    REGISTER_SPACE_BYTES,
    REGISTERS,
)


def test_registers_are_aligned_and_do_not_overlap() -> None:
    taken: set[int] = set()
    for register in REGISTERS.values():
        assert register.address % (4 * register.words) == 0
        words = set(range(register.address, register.address + 4 * register.words, 4))
        assert not words & taken
        taken |= words
    assert max(taken) < REGISTER_SPACE_BYTES <= 2 * max(taken)


def test_identification_comes_first() -> None:
    addresses = {name: register.address for name, register in REGISTERS.items()}
    assert (addresses["id"], addresses["version"], addresses["config_hash"]) == (0, 4, 8)
    assert ID_VALUE.to_bytes(4, "big") == b"TWM1"


def test_every_segment_has_a_writable_base_and_size() -> None:
    for segment in Segment:
        base = REGISTERS[f"base_{segment.name.lower()}"]
        size = REGISTERS[f"size_{segment.name.lower()}"]
        assert (base.words, size.words) == (2, 1)
        assert base.writable
        assert size.writable


def test_every_engine_counts_every_cause() -> None:
    for engine in ENGINES:
        for cause in CAUSES:
            register = REGISTERS[f"{engine}_{cause}"]
            assert register.words == 2
            assert not register.writable


def test_every_register_is_documented_under_its_own_name() -> None:
    for name, register in REGISTERS.items():
        assert register.name == name
        assert register.doc
