"""The instruction set, declared once: every other view of it derives from these classes.

A task instruction is 256 bits: opcode, four token bits, then its fields in the order of
declaration, lowest bits first.  A uop is 64 bits, a parameter 64 bits.  Encoder, decoder,
disassembler, SystemVerilog package, functional engine and the tables in the documentation
read the field metadata here.  `machine.md`-level meaning is in the docstrings; the exact
meaning is `tilewright.sim.functional`.
"""

import dataclasses
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, ClassVar

VERSION = 1
"""ISA version: a hardware register, and a field of every program."""

INSTRUCTION_BITS = 256
INSTRUCTION_BYTES = INSTRUCTION_BITS // 8
UOP_BITS = 64
PARAMETER_BITS = 64
OPCODE_BITS = 4
NUM_SEGMENTS = 5
SEGMENT_ALIGNMENT = 4096


class Opcode(IntEnum):
    """Task opcodes.  0 is illegal, so that zeroed memory traps; 6 to 9 are reserved."""

    LOAD = 1
    GEMM = 2
    ALU = 3
    STORE = 4
    FINISH = 5
    GEMM_DEPTHWISE = 6
    """Reserved: depthwise GEMM mode."""
    STORE_INPUT = 7
    """Reserved: STORE into the input scratchpad (layer chaining)."""
    LOOKUP = 8
    """Reserved: table look-up."""
    GEMM_SPARSE = 9
    """Reserved: block-sparse skip."""


class Engine(IntEnum):
    """The three token-exchanging engines, in ring order: load → compute → store → load."""

    LOAD = 0
    COMPUTE = 1
    STORE = 2

    @property
    def next(self) -> "Engine":
        """The engine after this one in the ring."""
        return Engine((self + 1) % 3)

    @property
    def previous(self) -> "Engine":
        """The engine before this one in the ring."""
        return Engine((self + 2) % 3)


class Memory(IntEnum):
    """Scratchpads that LOAD writes."""

    INPUT = 0
    WEIGHT = 1
    ACCUMULATOR = 2
    UOP = 3
    PARAMETER = 4


class Segment(IntEnum):
    """DRAM segments, each with a 64-bit base register, aligned to 4 KiB."""

    CODE = 0
    CONSTANTS = 1
    WORKSPACE = 2
    INPUT = 3
    OUTPUT = 4


class AluOp(IntEnum):
    """ALU operators on int32 lanes; b is the source tile or the immediate.

    Results keep the low 32 bits.  MUL multiplies the low 18 bits of dst (signed) by the low
    25 bits of b (signed).  SHR shifts right by b (left when b is negative) and rounds as the
    instruction says.  MAC adds (low 18 bits of the source tile, signed) x immediate to dst.
    MOV copies b.
    """

    MIN = 0
    MAX = 1
    ADD = 2
    SUB = 3
    MUL = 4
    SHR = 5
    MAC = 6
    MOV = 7


class Rounding(IntEnum):
    """What a right shift does with the bits it drops."""

    FLOOR = 0
    HALF_EVEN = 1
    HALF_AWAY = 2


def _bits(width: int, doc: str, *, signed: bool = False, default: int = 0) -> Any:
    return dataclasses.field(
        default=default, metadata={"bits": width, "signed": signed, "doc": doc}
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What every task instruction starts with: an opcode, then the four token bits.

    A pop waits for, and takes, one token from the neighbour in the ring; a push gives one to
    it when the instruction retires.
    """

    OPCODE: ClassVar[Opcode]
    ENGINE: ClassVar[Engine]

    pop_previous: int = _bits(1, "take a token from the previous engine of the ring first")
    pop_next: int = _bits(1, "take a token from the next engine of the ring first")
    push_previous: int = _bits(1, "give a token to the previous engine at retirement")
    push_next: int = _bits(1, "give a token to the next engine at retirement")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load(Task):
    """Copy a z·y·x block of tiles from DRAM into a scratchpad, padded on four sides.

    The padded block [z][pad_top + y + pad_bottom][pad_left + x + pad_right] is written to
    consecutive tiles from `scratchpad`.  Row (z, y) lies at byte offset + z·z_stride +
    y·y_stride (modulo 2^32) of the segment; its x tiles are adjacent.  A pad tile holds
    `pad_value` in every element.  `flip` inverts the top bit of every byte that was read
    (uint8 ↔ int8); INPUT, WEIGHT and widening ACCUMULATOR loads only.  `widen` (ACCUMULATOR
    only) reads int8 tiles and writes int32: element − zero_point, pads included.  x or y may
    be 0 (only padding); z may not.
    """

    OPCODE: ClassVar[Opcode] = Opcode.LOAD
    ENGINE: ClassVar[Engine] = Engine.LOAD

    memory: int = _bits(3, "scratchpad to write: a `Memory`")
    segment: int = _bits(4, "DRAM segment: a `Segment`")
    offset: int = _bits(32, "byte offset in the segment")
    scratchpad: int = _bits(16, "first tile to write")
    x: int = _bits(16, "tiles of a row", default=1)
    y: int = _bits(16, "rows of a plane", default=1)
    z: int = _bits(16, "planes", default=1)
    y_stride: int = _bits(32, "bytes from row to row, modulo 2^32")
    z_stride: int = _bits(32, "bytes from plane to plane, modulo 2^32")
    pad_top: int = _bits(8, "pad rows before each plane")
    pad_bottom: int = _bits(8, "pad rows after each plane")
    pad_left: int = _bits(8, "pad tiles before each row")
    pad_right: int = _bits(8, "pad tiles after each row")
    pad_value: int = _bits(8, "value of every element of a pad tile", signed=True)
    zero_point: int = _bits(9, "subtracted by a widening load", signed=True)
    flip: int = _bits(1, "invert the top bit of every byte read")
    widen: int = _bits(1, "int8 in DRAM to int32 in the accumulator")
    reserved: int = _bits(1, "must be 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loops(Task):
    """Uops [uop_begin, uop_begin + uop_count) inside three loops, 0 outermost.

    Each scratchpad index is the uop's plus Σ loop index · stride, modulo 2^16.  Counts and
    extents are at least 1.
    """

    uop_begin: int = _bits(16, "first uop")
    uop_count: int = _bits(16, "number of uops", default=1)
    extent_0: int = _bits(16, "iterations of the outermost loop", default=1)
    extent_1: int = _bits(16, "iterations of the middle loop", default=1)
    extent_2: int = _bits(16, "iterations of the innermost loop", default=1)
    dst_stride_0: int = _bits(16, "accumulator tiles a step of loop 0")
    dst_stride_1: int = _bits(16, "accumulator tiles a step of loop 1")
    dst_stride_2: int = _bits(16, "accumulator tiles a step of loop 2")
    src_stride_0: int = _bits(16, "source tiles a step of loop 0")
    src_stride_1: int = _bits(16, "source tiles a step of loop 1")
    src_stride_2: int = _bits(16, "source tiles a step of loop 2")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gemm(_Loops):
    """Acc[dst] += input[src] · weight[w]ᵀ for every uop and loop index.

    With input [BATCH][BLOCK_IN] and weight [BLOCK_OUT][BLOCK_IN], int8 products, int32 sums
    that wrap.  It overwrites acc[dst] instead when `overwrite` and the uop's `first` are set
    and every loop whose bit is set in `reduce_mask` is at index 0.
    """

    OPCODE: ClassVar[Opcode] = Opcode.GEMM
    ENGINE: ClassVar[Engine] = Engine.COMPUTE

    weight_stride_0: int = _bits(16, "weight tiles a step of loop 0")
    weight_stride_1: int = _bits(16, "weight tiles a step of loop 1")
    weight_stride_2: int = _bits(16, "weight tiles a step of loop 2")
    overwrite: int = _bits(1, "let first uops overwrite")
    reduce_mask: int = _bits(3, "bit i: loop i reduces; overwrite only at its index 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Alu(_Loops):
    """Acc[dst] = op(acc[dst], b) for every uop and loop index; see `AluOp`.

    b is acc[src], or the immediate when `use_immediate` is set; MAC needs both and so
    `use_immediate`.  `rounding` (a `Rounding`) must be 0 except for SHR.
    """

    OPCODE: ClassVar[Opcode] = Opcode.ALU
    ENGINE: ClassVar[Engine] = Engine.COMPUTE

    op: int = _bits(4, "an `AluOp`")
    immediate: int = _bits(25, "second operand", signed=True)
    use_immediate: int = _bits(1, "take the immediate instead of the source tile")
    rounding: int = _bits(2, "a `Rounding`, for SHR")
    reserved: int = _bits(3, "must be 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class Store(Task):
    """Write a z·y·x block of accumulator tiles to DRAM through the output stage.

    Tile (z, y, x) is accumulator + (z·Y + y)·accumulator_row + x, and lies at byte offset +
    z·z_stride + y·y_stride (modulo 2^32) + x tiles of the segment.  Channel c of it becomes
    `clamp(zero_point + round((acc + bias[c]) · multiplier[c] / 2^shift[c]), low, high)` with
    parameters from row parameter + (x mod 2^log2_parameter_period) + (parameter_step ?
    z·2^log2_parameter_period : 0).  `raw` writes the int32 accumulators as they are.  Its
    token to load means that the writes were answered; its token to compute the same, or only
    that the accumulators were read when `early` is set.
    """

    OPCODE: ClassVar[Opcode] = Opcode.STORE
    ENGINE: ClassVar[Engine] = Engine.STORE

    segment: int = _bits(4, "DRAM segment: WORKSPACE or OUTPUT")
    offset: int = _bits(32, "byte offset in the segment")
    accumulator: int = _bits(16, "first accumulator tile")
    x: int = _bits(16, "tiles of a row", default=1)
    y: int = _bits(16, "rows of a plane", default=1)
    z: int = _bits(16, "planes", default=1)
    y_stride: int = _bits(32, "bytes from row to row, modulo 2^32")
    z_stride: int = _bits(32, "bytes from plane to plane, modulo 2^32")
    accumulator_row: int = _bits(16, "accumulator tiles from row to row", default=1)
    parameter: int = _bits(16, "first parameter row")
    parameter_step: int = _bits(1, "parameter rows advance with z")
    log2_parameter_period: int = _bits(3, "log2 of the parameter rows that x cycles through")
    zero_point: int = _bits(9, "added after rounding", signed=True)
    low: int = _bits(9, "least value stored", signed=True, default=-128)
    high: int = _bits(9, "greatest value stored", signed=True, default=127)
    raw: int = _bits(1, "write int32 accumulators unchanged")
    early: int = _bits(1, "push to compute once the accumulators are read")
    round_away: int = _bits(1, "round halves away from zero instead of to even")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish(Task):
    """Stop: done once all queues and engines are empty and all writes are answered."""

    OPCODE: ClassVar[Opcode] = Opcode.FINISH
    ENGINE: ClassVar[Engine] = Engine.COMPUTE


@dataclass(frozen=True, slots=True, kw_only=True)
class Uop:
    """One micro-op: the tiles of one GEMM or ALU step."""

    dst: int = _bits(16, "accumulator tile written")
    src: int = _bits(16, "input tile (GEMM) or accumulator tile (ALU) read")
    weight: int = _bits(16, "weight tile (GEMM)")
    first: int = _bits(1, "first of its reduction: overwrite when the instruction says so")


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """Output-stage constants of one channel."""

    bias: int = _bits(32, "added to the accumulator, exactly", signed=True)
    multiplier: int = _bits(24, "unsigned mantissa of the scale ratio")
    shift: int = _bits(6, "right shift of the product")


Instruction = Load | Gemm | Alu | Store | Finish
INSTRUCTIONS: tuple[type[Instruction], ...] = (Load, Gemm, Alu, Store, Finish)


@dataclass(frozen=True, slots=True)
class Field:
    """Where a field lies in its word."""

    name: str
    offset: int
    bits: int
    signed: bool
    doc: str

    @property
    def low(self) -> int:
        """The least value the field holds."""
        return -(1 << self.bits - 1) if self.signed else 0

    @property
    def high(self) -> int:
        """The greatest value the field holds."""
        return (1 << self.bits - self.signed) - 1


def _lay_out(word: type[Instruction | Uop | Parameter]) -> tuple[Field, ...]:
    offset = OPCODE_BITS if issubclass(word, Task) else 0
    fields = []
    for field in dataclasses.fields(word):
        meta = field.metadata
        fields.append(Field(field.name, offset, meta["bits"], meta["signed"], meta["doc"]))
        offset += meta["bits"]
    return tuple(fields)


_LAYOUTS = {word.__name__: _lay_out(word) for word in (*INSTRUCTIONS, Uop, Parameter)}


def layout(word: type[Instruction | Uop | Parameter]) -> tuple[Field, ...]:
    """Return the bit layout of an instruction (from bit 4, above the opcode), uop or parameter."""
    return _LAYOUTS[word.__name__]
