"""The static rules of an instruction: what is wrong with it whatever the memories hold."""

from collections.abc import Iterator

from tilewright.hw.config import Config
from tilewright.hw.isa import (
    Alu,
    AluOp,
    Finish,
    Gemm,
    Instruction,
    Load,
    Memory,
    Rounding,
    Segment,
    Store,
    layout,
)

PADDED_MEMORIES = (Memory.INPUT, Memory.WEIGHT, Memory.ACCUMULATOR)
"""Memories of numbers; the others take no padding."""

LOOP_COUNTS = ("uop_count", "extent_0", "extent_1", "extent_2")


def dram_tile_bytes(instruction: Load | Store, config: Config) -> int:
    """Return the bytes that one tile of a legal instruction takes in DRAM."""
    if isinstance(instruction, Load):
        if instruction.widen:
            return config.output_tile_bytes
        return config.tile_bytes()[Memory(instruction.memory).name.lower()]
    return config.accumulator_tile_bytes if instruction.raw else config.output_tile_bytes


def row_alignment(instruction: Load | Store, config: Config) -> int:
    """Return what offset and strides of a legal instruction must be multiples of, in bytes."""
    return min(dram_tile_bytes(instruction, config), config.axi_bytes)


def check_legal(instruction: Instruction, config: Config) -> str | None:
    """Return the first static rule that the instruction breaks on this machine, or None.

    Indices and addresses that depend on uops, loops or segment sizes are checked when the
    instruction runs.
    """
    return next(_problems(instruction, config), None)


def _problems(instruction: Instruction, config: Config) -> Iterator[str]:
    for field in layout(type(instruction)):
        value = getattr(instruction, field.name)
        if not field.low <= value <= field.high:
            yield f"{field.name}={value} does not fit {field.bits} bits [{field.low}, {field.high}]"
    if getattr(instruction, "reserved", 0):
        yield "reserved bits must be 0"
    match instruction:
        case Load():
            yield from _load_problems(instruction)
            yield from _misalignments(instruction, config)
        case Gemm():
            yield from _zeros(instruction, LOOP_COUNTS)
        case Alu():
            yield from _alu_problems(instruction)
            yield from _zeros(instruction, LOOP_COUNTS)
        case Store():
            yield from _store_problems(instruction)
            yield from _misalignments(instruction, config)
        case Finish():
            pass


def _load_problems(load: Load) -> Iterator[str]:
    if load.memory not in list(Memory):
        yield f"memory={load.memory} is not a memory; legal are 0 to {max(Memory)}"
    if load.segment not in list(Segment):
        yield f"segment={load.segment} is not a segment; legal are 0 to {max(Segment)}"
    memory = Memory(load.memory)
    if memory is Memory.UOP and load.segment != Segment.CONSTANTS:
        yield f"uops load from CONSTANTS only, not from {Segment(load.segment).name}"
    if load.widen and memory is not Memory.ACCUMULATOR:
        yield f"widen is for ACCUMULATOR loads, not for {memory.name}"
    if load.flip and not (load.widen or memory in (Memory.INPUT, Memory.WEIGHT)):
        yield f"flip is for INPUT, WEIGHT and widening ACCUMULATOR loads, not for {memory.name}"
    padded = load.pad_top or load.pad_bottom or load.pad_left or load.pad_right
    if padded and memory not in PADDED_MEMORIES:
        yield f"{memory.name} loads take no padding"
    width = load.pad_left + load.x + load.pad_right
    height = load.pad_top + load.y + load.pad_bottom
    if load.z * width * height == 0:
        yield f"z={load.z} planes of {height} rows of {width} tiles write nothing"


def _alu_problems(alu: Alu) -> Iterator[str]:
    if alu.op not in list(AluOp):
        yield f"op={alu.op} is not an ALU operator; legal are 0 to {max(AluOp)}"
    if alu.rounding not in list(Rounding):
        yield f"rounding={alu.rounding} is not a rounding; legal are 0 to {max(Rounding)}"
    if alu.rounding and alu.op != AluOp.SHR:
        yield f"rounding={alu.rounding} is for SHR, not for {AluOp(alu.op).name}"
    if alu.op == AluOp.MAC and not alu.use_immediate:
        yield "MAC needs use_immediate=1"


def _store_problems(store: Store) -> Iterator[str]:
    if store.segment not in (Segment.WORKSPACE, Segment.OUTPUT):
        yield f"segment={store.segment} is not WORKSPACE or OUTPUT"
    yield from _zeros(store, ("x", "y", "z"))
    if store.low > store.high:
        yield f"low={store.low} is above high={store.high}"


def _zeros(instruction: Gemm | Alu | Store, names: tuple[str, ...]) -> Iterator[str]:
    for name in names:
        if getattr(instruction, name) == 0:
            yield f"{name}=0 must be at least 1"


def _misalignments(instruction: Load | Store, config: Config) -> Iterator[str]:
    alignment = row_alignment(instruction, config)
    for name in ("offset", "y_stride", "z_stride"):
        value = getattr(instruction, name)
        if value % alignment:
            yield f"{name}={value} is not a multiple of {alignment} bytes"
