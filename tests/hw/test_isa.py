import pytest

from tilewright.hw import isa
from tilewright.hw.isa import Engine, Field, Opcode, Parameter, Uop

WORDS = [*isa.INSTRUCTIONS, Uop, Parameter]

USED_BITS = {
    "Load": 227,
    "Gemm": 236,
    "Alu": 219,
    "Store": 238,
    "Finish": 8,
    "Uop": 49,
    "Parameter": 62,
}
"""What the design counted by hand, opcode and tokens included."""


@pytest.mark.parametrize("word", WORDS)
def test_fields_are_adjacent_and_fit_the_word(word: type) -> None:
    fields = isa.layout(word)
    bits = isa.INSTRUCTION_BITS if word in isa.INSTRUCTIONS else isa.UOP_BITS
    position = isa.OPCODE_BITS if word in isa.INSTRUCTIONS else 0
    for field in fields:
        assert field.offset == position
        position += field.bits
    assert position == USED_BITS[word.__name__] <= bits
    assert len({field.name for field in fields}) == len(fields)


@pytest.mark.parametrize("word", WORDS)
def test_defaults_are_in_range_and_every_field_is_documented(word: type) -> None:
    instance = word()
    for field in isa.layout(word):
        assert field.low <= getattr(instance, field.name) <= field.high
        assert field.doc


def test_signed_fields_reach_one_further_down() -> None:
    assert (Field("x", 0, 9, True, "").low, Field("x", 0, 9, True, "").high) == (-256, 255)
    assert (Field("x", 0, 9, False, "").low, Field("x", 0, 9, False, "").high) == (0, 511)


def test_token_bits_come_first_in_every_instruction() -> None:
    for word in isa.INSTRUCTIONS:
        names = [field.name for field in isa.layout(word)[:4]]
        assert names == ["pop_previous", "pop_next", "push_previous", "push_next"]


def test_zero_is_not_an_opcode_and_reserved_opcodes_have_no_instruction() -> None:
    assert 0 not in list(Opcode)
    assert {word.OPCODE for word in isa.INSTRUCTIONS} == {Opcode(value) for value in range(1, 6)}


def test_engines_form_a_ring() -> None:
    for engine in Engine:
        assert engine.next.previous is engine
        assert engine.next.next.next is engine
    assert Engine.LOAD.next is Engine.COMPUTE
    assert Engine.STORE.next is Engine.LOAD
