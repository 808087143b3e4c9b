"""The AXI-Lite register map, declared once: RTL, drivers, benches and docs derive from it.

Registers are 32 bits wide; a 64-bit value takes two, low word first.
"""

from dataclasses import dataclass
from enum import IntEnum

from tilewright.hw.isa import NUM_SEGMENTS, Segment

ID_VALUE = 0x54574D31
"""What the ID register reads: "TWM1"."""

CONTROL_START = 1 << 0
CONTROL_RESET = 1 << 1
STATUS_DONE = 1 << 0
STATUS_ERROR = 1 << 1
STATUS_BUSY = 1 << 2

ENGINES = ("fetch", "load", "compute", "store")
CAUSES = ("busy", "wait_memory", "wait_conflict", "wait_dependency", "idle")
"""What an engine did in a cycle: the first that holds, in this order."""


class ErrorCause(IntEnum):
    """Low byte of the error register; the next byte is the index in `ENGINES`."""

    NONE = 0
    ILLEGAL_OPCODE = 1
    READ_RESPONSE = 2
    WRITE_RESPONSE = 3


@dataclass(frozen=True, slots=True)
class Register:
    """One register: byte address, 32-bit words (1 or 2), access."""

    name: str
    address: int
    words: int
    writable: bool
    doc: str


def _map() -> dict[str, Register]:
    rows: list[tuple[str, int, bool, str]] = [
        ("id", 1, False, "0x54574D31"),
        ("version", 1, False, "ISA version"),
        ("config_hash", 2, False, "fingerprint of the machine's config"),
        ("control", 1, True, "bit 0 start, bit 1 soft reset; both read as 0"),
        ("status", 1, True, "bit 0 done, bit 1 error (sticky, cleared by writing 1), bit 2 busy"),
        ("error", 1, False, "[7:0] cause (`ErrorCause`), [15:8] engine (index in `ENGINES`)"),
        ("error_index", 1, False, "index of the failing instruction within its engine"),
        ("num_instructions", 1, True, "task instructions in the code segment"),
    ]
    rows += [
        (f"base_{segment.name.lower()}", 2, True, f"address of the {segment.name} segment")
        for segment in Segment
    ]
    rows += [
        (f"size_{segment.name.lower()}", 1, True, f"bytes of the {segment.name} segment")
        for segment in Segment
    ]
    rows += [
        ("cycles", 2, False, "cycles from start to done"),
        ("bytes_read", 2, False, "bytes of all read beats"),
        ("bytes_written", 2, False, "bytes written, strobes counted"),
        ("instructions", 1, False, "task instructions retired"),
    ]
    rows += [
        (f"{engine}_{cause}", 2, False, f"cycles the {engine} engine counted as {cause}")
        for engine in ENGINES
        for cause in CAUSES
    ]
    registers, address = {}, 0
    for name, words, writable, doc in rows:
        address = (address + 4 * words - 1) // (4 * words) * (4 * words)
        registers[name] = Register(name, address, words, writable, doc)
        address += 4 * words
    return registers


REGISTERS = _map()
REGISTER_SPACE_BYTES = (
    1 << max(r.address + 4 * r.words - 1 for r in REGISTERS.values()).bit_length()
)

assert len(Segment) == NUM_SEGMENTS
