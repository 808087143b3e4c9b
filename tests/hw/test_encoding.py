import numpy as np
import pytest

from tilewright.hw import isa
from tilewright.hw.encoding import (
    decode,
    decode_fields,
    decode_word,
    disassemble,
    encode,
    encode_parameters,
    encode_uops,
    encode_word,
)
from tilewright.hw.errors import CompileError, SimulationError
from tilewright.hw.isa import (
    Alu,
    AluOp,
    Finish,
    Gemm,
    Load,
    Memory,
    Parameter,
    Segment,
    Store,
    Uop,
)


@pytest.mark.parametrize("word", isa.INSTRUCTIONS)
def test_any_field_values_survive_encode_and_decode(word: type) -> None:
    rng = np.random.default_rng(0)
    extremes = [
        word(**{f.name: getattr(f, end) for f in isa.layout(word)}) for end in ("low", "high")
    ]
    random = [
        word(**{f.name: int(rng.integers(f.low, f.high + 1)) for f in isa.layout(word)})
        for _ in range(50)
    ]
    assert decode(encode([*extremes, *random])) == [*extremes, *random]


def test_bits_lie_where_the_design_puts_them() -> None:
    # LOAD: opcode 4, tokens 4, memory 3, segment 4, offset 32, scratchpad 16, x, …
    load = Load(memory=Memory.UOP, segment=Segment.OUTPUT, offset=0x89ABCDEF, scratchpad=0x1234)
    bits = encode_word(load)
    assert bits & 0xF == 1
    assert bits >> 8 & 0x7 == 3
    assert bits >> 11 & 0xF == 4
    assert bits >> 15 & 0xFFFFFFFF == 0x89ABCDEF
    assert bits >> 47 & 0xFFFF == 0x1234
    assert bits >> 63 & 0xFFFF == 1
    assert encode_word(Load(push_next=1)) >> 4 & 0xF == 0b1000


def test_code_is_little_endian_32_bytes_an_instruction() -> None:
    code = encode([Finish(), Alu(op=AluOp.MOV)])
    assert code.shape == (2, 32)
    assert code[0].tolist() == [5] + [0] * 31
    assert int.from_bytes(code[1].tobytes(), "little") == encode_word(Alu(op=AluOp.MOV))


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (Gemm(uop_count=65536), "encode: GEMM.uop_count=65536 does not fit 16 bits [0, 65535]"),
        (Store(low=-257), "encode: STORE.low=-257 does not fit 9 bits [-256, 255]"),
        (
            Alu(immediate=1 << 24),
            "encode: ALU.immediate=16777216 does not fit 25 bits [-16777216, 16777215]",
        ),
        (Uop(first=2), "encode: UOP.first=2 does not fit 1 bits [0, 1]"),
    ],
)
def test_value_outside_its_field_is_refused(word: isa.Instruction | Uop, message: str) -> None:
    with pytest.raises(CompileError) as caught:
        encode_word(word)
    assert str(caught.value) == message


@pytest.mark.parametrize("opcode", [0, 6, 7, 8, 9, 15])
def test_opcode_without_an_instruction_is_refused(opcode: int) -> None:
    with pytest.raises(SimulationError, match=f"decode: opcode {opcode} is not an instruction"):
        decode_word(opcode)


@pytest.mark.parametrize("word", isa.INSTRUCTIONS)
def test_bits_past_the_last_field_are_refused(word: type) -> None:
    last = isa.layout(word)[-1]
    bits = encode_word(word()) | 1 << last.offset + last.bits
    with pytest.raises(SimulationError, match="has bits set past its last field"):
        decode_word(bits)


def test_uops_survive_as_arrays() -> None:
    uops = [Uop(dst=65535, src=1, weight=2, first=1), Uop(dst=3, src=65535, weight=65535)]
    words = encode_uops(uops)
    assert words.tolist() == [1 << 48 | 2 << 32 | 1 << 16 | 65535, 65535 << 32 | 65535 << 16 | 3]
    fields = decode_fields(words, Uop)
    columns = zip(
        *(fields[name].tolist() for name in ("dst", "src", "weight", "first")), strict=True
    )
    assert [Uop(dst=d, src=s, weight=w, first=f) for d, s, w, f in columns] == uops


def test_parameters_survive_as_arrays() -> None:
    bias = np.array([-(1 << 31), (1 << 31) - 1, -1, 0])
    multiplier = np.array([(1 << 24) - 1, 0, 1, 1 << 23])
    shift = np.array([63, 0, 1, 31])
    words = encode_parameters(bias, multiplier, shift)
    assert int(words[0]) == 63 << 56 | ((1 << 24) - 1) << 32 | 1 << 31
    fields = decode_fields(words, Parameter)
    assert np.array_equal(fields["bias"], bias)
    assert np.array_equal(fields["multiplier"], multiplier)
    assert np.array_equal(fields["shift"], shift)


def test_parameter_outside_its_field_is_refused() -> None:
    with pytest.raises(CompileError) as caught:
        encode_parameters(np.array([0]), np.array([-1]), np.array([0]))
    assert str(caught.value) == (
        "encode: parameter multiplier spans [-1, -1], which does not fit 24 bits [0, 16777215]"
    )


@pytest.mark.parametrize(
    ("instruction", "text"),
    [
        (Finish(pop_next=1), "finish <n"),
        (
            Load(memory=Memory.WEIGHT, segment=Segment.CONSTANTS, offset=64, x=0, push_next=1),
            "load   >n memory=weight segment=constants offset=64 x=0",
        ),
        (
            Alu(op=AluOp.SHR, immediate=-3, use_immediate=1, rounding=1, pop_previous=1),
            "alu    <p op=shr immediate=-3 use_immediate=1 rounding=half_even",
        ),
        (Gemm(), "gemm"),
    ],
)
def test_disassembly_shows_what_is_not_default(instruction: isa.Instruction, text: str) -> None:
    assert disassemble(instruction) == text


def test_disassembly_of_an_illegal_value_shows_the_number() -> None:
    assert disassemble(Load(memory=7)) == "load   memory=7 segment=code"
