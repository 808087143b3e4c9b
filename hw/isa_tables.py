"""The tables of `docs/isa.md`, generated from the declarations they describe.

The document keeps each table between `<!-- table: NAME -->` and `<!-- end -->`; text outside
is written by hand.
"""

import inspect
import re
from collections.abc import Iterable
from enum import IntEnum

from tilewright.hw import isa
from tilewright.hw.isa import (
    AluOp,
    Instruction,
    Memory,
    Opcode,
    Parameter,
    Rounding,
    Segment,
    Task,
    Uop,
    layout,
)
from tilewright.hw.registers import REGISTERS

TABLE = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def tables() -> dict[str, str]:
    """Return every table as Markdown, by the name that its marker bears."""
    words: tuple[type[Instruction | Uop | Parameter], ...] = (
        *isa.INSTRUCTIONS,
        Uop,
        Parameter,
    )
    enums: tuple[type[IntEnum], ...] = (Opcode, Memory, Segment, AluOp, Rounding)
    return {
        **{word.__name__.lower(): _word(word) for word in words},
        **{_kebab(enum.__name__): _codes(enum) for enum in enums},
        "registers": _registers(),
    }


def fill(document: str) -> str:
    """Return the document with every table between its markers made anew.

    Raises:
        KeyError: a marker that names no table.
    """
    made = tables()
    return TABLE.sub(lambda match: f"{match[1]}{made[match[2]]}{match[3]}", document)


def _markdown(header: tuple[str, ...], rows: Iterable[tuple[object, ...]]) -> str:
    lines = [header, ("---",) * len(header), *rows]
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in lines)


def _word(word: type[Instruction | Uop | Parameter]) -> str:
    rows: list[tuple[object, ...]] = []
    if issubclass(word, Task):
        rows.append(
            (
                f"{isa.OPCODE_BITS - 1}:0",
                "opcode",
                "unsigned",
                int(word.OPCODE),
                "which instruction",
            )
        )
    blank = word()
    for field in layout(word):
        last = field.offset + field.bits - 1
        bits = f"{last}:{field.offset}" if field.bits > 1 else str(last)
        sign = "signed" if field.signed else "unsigned"
        rows.append((bits, f"`{field.name}`", sign, getattr(blank, field.name), field.doc))
    meaning = inspect.getdoc(word) or ""
    return f"{meaning}\n\n{_markdown(('bits', 'field', 'type', 'default', 'meaning'), rows)}"


def _codes(enum: type[IntEnum]) -> str:
    return _markdown(("code", "name"), [(member.value, member.name) for member in enum])


def _registers() -> str:
    rows = [
        (
            f"0x{register.address:03x}",
            f"`{register.name}`",
            32 * register.words,
            "read, write" if register.writable else "read",
            register.doc,
        )
        for register in REGISTERS.values()
    ]
    return _markdown(("address", "register", "bits", "access", "meaning"), rows)


def _kebab(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower()
