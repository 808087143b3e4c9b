"""Words from instructions and back, and their readable form; all derived from `isa`."""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from tilewright.hw import isa
from tilewright.hw.errors import CompileError, SimulationError
from tilewright.hw.isa import Field, Instruction, Parameter, Task, Uop

_BY_OPCODE = {word.OPCODE: word for word in isa.INSTRUCTIONS}

_ENUMS = {
    "memory": isa.Memory,
    "segment": isa.Segment,
    "op": isa.AluOp,
    "rounding": isa.Rounding,
}


def encode_word(word: Instruction | Uop | Parameter) -> int:
    """Return the word's bits as an unsigned integer.

    Raises:
        CompileError: a value outside its field.
    """
    bits = int(word.OPCODE) if isinstance(word, Task) else 0
    for field in isa.layout(type(word)):
        value = getattr(word, field.name)
        if not field.low <= value <= field.high:
            raise CompileError(
                f"encode: {type(word).__name__.upper()}.{field.name}={value} does not fit"
                f" {field.bits} bits [{field.low}, {field.high}]"
            )
        bits |= (int(value) & ((1 << field.bits) - 1)) << field.offset
    return bits


def encode(instructions: Iterable[Instruction]) -> NDArray[np.uint8]:
    """Return uint8[n, 32], little endian."""
    words = [encode_word(i).to_bytes(isa.INSTRUCTION_BYTES, "little") for i in instructions]
    return np.frombuffer(b"".join(words), np.uint8).reshape(-1, isa.INSTRUCTION_BYTES)


def _extract(bits: int, field: Field) -> int:
    value = bits >> field.offset & ((1 << field.bits) - 1)
    return value - (1 << field.bits) if field.signed and value > field.high else value


def decode_word(bits: int) -> Instruction:
    """Return the instruction of a 256-bit word.

    Raises:
        SimulationError: an opcode that is illegal or reserved, or bits set past the last field.
    """
    opcode = bits & ((1 << isa.OPCODE_BITS) - 1)
    cls = _BY_OPCODE.get(opcode)  # type: ignore[call-overload]
    if cls is None:
        raise SimulationError(f"decode: opcode {opcode} is not an instruction; legal are 1 to 5")
    fields = isa.layout(cls)
    if bits >> (fields[-1].offset + fields[-1].bits):
        raise SimulationError(
            f"decode: {cls.__name__.upper()} has bits set past its last field; they must be 0"
        )
    instruction: Instruction = cls(**{field.name: _extract(bits, field) for field in fields})
    return instruction


def decode(code: NDArray[np.uint8]) -> list[Instruction]:
    """Return the instructions of uint8[n, 32] (or its flat bytes); errors as `decode_word`."""
    rows = np.ascontiguousarray(code, np.uint8).reshape(-1, isa.INSTRUCTION_BYTES)
    return [decode_word(int.from_bytes(row.tobytes(), "little")) for row in rows]


def encode_uops(uops: Sequence[Uop]) -> NDArray[np.uint64]:
    """Return uint64[n]."""
    return np.array([encode_word(uop) for uop in uops], np.uint64)


def decode_fields(
    words: NDArray[np.uint64], cls: type[Uop | Parameter]
) -> dict[str, NDArray[np.int64]]:
    """Return each field of an array of 64-bit uops or parameters as int64 of the same shape."""
    fields = {}
    for field in isa.layout(cls):
        value = (words >> np.uint64(field.offset) & np.uint64((1 << field.bits) - 1)).astype(
            np.int64
        )
        fields[field.name] = (
            np.where(value > field.high, value - (1 << field.bits), value)
            if field.signed
            else value
        )
    return fields


def encode_parameters(
    bias: NDArray[np.int64], multiplier: NDArray[np.int64], shift: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """Return uint64[channels] of output-stage parameters.

    Raises:
        CompileError: a value outside its field.
    """
    words = np.zeros(bias.shape, np.uint64)
    values = {"bias": bias, "multiplier": multiplier, "shift": shift}
    for field in isa.layout(Parameter):
        value = np.asarray(values[field.name], np.int64)
        if value.size and not (field.low <= value.min() and value.max() <= field.high):
            raise CompileError(
                f"encode: parameter {field.name} spans [{value.min()}, {value.max()}],"
                f" which does not fit {field.bits} bits [{field.low}, {field.high}]"
            )
        words |= (value & ((1 << field.bits) - 1)).astype(np.uint64) << np.uint64(field.offset)
    return words


def disassemble(instruction: Instruction) -> str:
    """Return one line: mnemonic, tokens (`<p` `<n` pop, `>p` `>n` push), fields not at default."""
    tokens = [
        mark
        for name, mark in (
            ("pop_previous", "<p"),
            ("pop_next", "<n"),
            ("push_previous", ">p"),
            ("push_next", ">n"),
        )
        if getattr(instruction, name)
    ]
    shown = []
    blank = type(instruction)()
    for field in isa.layout(type(instruction))[4:]:
        value = getattr(instruction, field.name)
        always = field.name in _ENUMS and field.name != "rounding"
        if value != getattr(blank, field.name) or always:
            enum = _ENUMS.get(field.name)
            text = enum(value).name.lower() if enum and value in list(enum) else str(value)
            shown.append(f"{field.name}={text}")
    return " ".join([type(instruction).__name__.lower().ljust(6), *tokens, *shown]).rstrip()
