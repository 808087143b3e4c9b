"""What a set of programs exercises: every point of the ISA that an engine could get wrong."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from tilewright.hw.config import MAX_INDEX, UOP_BYTES, Config
from tilewright.hw.encoding import decode, decode_fields
from tilewright.hw.isa import (
    Alu,
    AluOp,
    Engine,
    Finish,
    Gemm,
    Instruction,
    Load,
    Memory,
    Rounding,
    Segment,
    Store,
    Uop,
)
from tilewright.runtime.device import Segments
from tilewright.sim.functional import ADDRESS_SPAN, alu_steps, gemm_steps
from tilewright.sim.functional_rules import PADDED_MEMORIES, dram_tile_bytes
from tilewright.sim.random_shapes import PAGE_BYTES

Int64 = NDArray[np.int64]

TOKENS = ("pop_previous", "pop_next", "push_previous", "push_next")
SIDES = ("top", "bottom", "left", "right")
ROW_STRIDES = ("zero", "dense", "apart", "overlapping", "backwards")
SIGNS = ("zero", "up", "down")
NUM_PERIODS = 8
NUM_MASKS = 8


def _points() -> Iterator[str]:
    for engine in Engine:
        yield from (f"{_name(engine)} {token}" for token in TOKENS)
        yield f"{_name(engine)} queue filled"
    yield from (f"finish {token}" for token in TOKENS[:2])
    for memory in Memory:
        for segment in Segment:
            if memory is not Memory.UOP or segment is Segment.CONSTANTS:
                yield f"load {_name(memory)} from {segment.name}"
    for target in (*map(_name, PADDED_MEMORIES), "widened"):
        yield from (f"load {target} pad {side}" for side in SIDES)
        yield from (f"load {target} pad value {sign}" for sign in ("<0", "=0", ">0"))
    yield from (f"load flipped {target}" for target in ("input", "weight", "widened"))
    yield from (f"load zero point {sign}" for sign in ("<0", "=0", ">0"))
    yield from (f"load {empty}" for empty in ("x=0", "y=0", "x=0 y=0"))
    for mnemonic in ("load", "store"):
        for axis in ("y", "z"):
            yield from (f"{mnemonic} {axis} stride {kind}" for kind in ROW_STRIDES)
        yield f"{mnemonic} row across 4 KiB"
        yield f"{mnemonic} row longer than a burst"
        yield f"{mnemonic} row from inside a beat"
    for mnemonic, operands in (("gemm", ("dst", "src", "weight")), ("alu", ("dst", "src"))):
        for operand in operands:
            for loop in range(3):
                yield from (f"{mnemonic} {operand} stride {loop} {sign}" for sign in SIGNS)
        yield from (f"{mnemonic} {n} a loop" for n in ("one uop", "several uops"))
        yield f"{mnemonic} dst as the step before"
        yield f"{mnemonic} dst as the instruction before"
        yield f"{mnemonic} one step, stored next"
    yield from (f"gemm overwrite reduce_mask={mask}" for mask in range(NUM_MASKS))
    yield from (f"gemm overwrite={o} first={f}" for o in range(2) for f in range(2))
    yield "gemm overwrites after accumulating"
    for op in AluOp:
        yield f"alu {_name(op)} immediate"
        yield f"alu {_name(op)} immediate <0"
        if op is not AluOp.MAC:
            yield f"alu {_name(op)} tile"
    for rounding in Rounding:
        yield from (f"alu shr {_name(rounding)} {b}" for b in ("tile", "immediate"))
    yield "alu shr immediate >=32"
    yield "alu src as the dst of the step before"
    for kind in ("raw", "output stage"):
        yield from (f"store {kind} to {s.name}" for s in (Segment.WORKSPACE, Segment.OUTPUT))
        yield from (f"store {kind} early={early}" for early in range(2))
    yield from (f"store round_away={away}" for away in range(2))
    yield from (f"store parameter_step={step} of several planes" for step in range(2))
    yield from (f"store log2_parameter_period={period}" for period in range(NUM_PERIODS))
    yield from (f"store zero point {sign}" for sign in ("<0", "=0", ">0"))
    yield from (f"store limits {limits}" for limits in ("int8", "uint8", "other"))
    yield from (f"store accumulator_row {sign}" for sign in SIGNS)
    yield "uops replaced after use"


def _name(member: Engine | Memory | AluOp | Rounding) -> str:
    return member.name.lower()


POINTS = tuple(_points())


class Coverage:
    """Counts how many programs hit each point of `POINTS`."""

    def __init__(self) -> None:
        self.hits = dict.fromkeys(POINTS, 0)
        self.num_programs = 0

    def add(self, config: Config, segments: Segments) -> None:
        """Count a legal program, read from its CODE and CONSTANTS segments."""
        self.num_programs += 1
        for point in set(_hits(config, segments)):
            self.hits[point] += 1

    def missing(self) -> list[str]:
        """Return the points that no program hit."""
        return [point for point, count in self.hits.items() if not count]

    def summary(self) -> str:
        """Return a line for each first word of the points, then the rarest and the missing."""
        groups: dict[str, list[int]] = {}
        for point, count in self.hits.items():
            groups.setdefault(point.split()[0], []).append(count)
        lines = [f"coverage of {self.num_programs} programs"]
        for group, counts in groups.items():
            lines.append(f"  {group:<8} {sum(map(bool, counts)):>3} of {len(counts):>3} points")
        reached = {point: count for point, count in self.hits.items() if count}
        if reached:
            rarest = min(reached, key=lambda point: reached[point])
            lines.append(f"  rarest: {rarest} ({reached[rarest]} programs)")
        return "\n".join([*lines, *(f"  missing: {point}" for point in self.missing())])


def _hits(config: Config, segments: Segments) -> Iterator[str]:
    instructions = decode(segments[Segment.CODE])
    yield from _order_hits(instructions, config)
    uops = np.zeros(config.depths()["uop"], np.uint64)
    used = np.zeros(len(uops), bool)
    last_dst: Int64 | None = None
    for index, instruction in enumerate(instructions):
        match instruction:
            case Load():
                yield from _load_hits(instruction, config)
                if instruction.memory == Memory.UOP:
                    words = _read_uops(instruction, segments[Segment.CONSTANTS])
                    tiles = slice(instruction.scratchpad, instruction.scratchpad + len(words))
                    if used[tiles].any():
                        yield "uops replaced after use"
                    uops[tiles], used[tiles] = words, False
            case Gemm() | Alu():
                tiles = slice(instruction.uop_begin, instruction.uop_begin + instruction.uop_count)
                used[tiles] = True
                fields = decode_fields(uops[tiles], Uop)
                yield from _step_hits(instruction, fields)
                dst = alu_steps(instruction, fields)[0] % MAX_INDEX
                mnemonic = type(instruction).__name__.lower()
                if last_dst is not None and last_dst[-1] == dst[0]:
                    yield f"{mnemonic} dst as the instruction before"
                if len(dst) == 1 and _stores(instructions[index + 1], dst[0]):
                    yield f"{mnemonic} one step, stored next"
                last_dst = dst
            case Store():
                yield from _store_hits(instruction, config)
            case Finish():
                yield from (f"finish {t}" for t in TOKENS if getattr(instruction, t))


def _stores(instruction: Instruction, tile: int) -> bool:
    return isinstance(instruction, Store) and instruction.accumulator == tile


def _order_hits(instructions: Sequence[Instruction], config: Config) -> Iterator[str]:
    run = 0
    for index, instruction in enumerate(instructions):
        engine = _name(instruction.ENGINE)
        yield from (f"{engine} {token}" for token in TOKENS if getattr(instruction, token))
        same = index and instructions[index - 1].ENGINE is instruction.ENGINE
        run = run + 1 if same else 1
        if run > config.queue_depth:
            yield f"{engine} queue filled"


def _read_uops(load: Load, constants: NDArray[np.uint8]) -> NDArray[np.uint64]:
    z, y, x = np.ogrid[: load.z, : load.y, : load.x * UOP_BYTES]
    starts = (load.offset + z * load.z_stride + y * load.y_stride) % ADDRESS_SPAN
    words: NDArray[np.uint64] = constants[(starts + x).reshape(-1)].view("<u8")
    return words


def _load_hits(load: Load, config: Config) -> Iterator[str]:
    memory = Memory(load.memory)
    target = "widened" if load.widen else _name(memory)
    yield f"load {_name(memory)} from {Segment(load.segment).name}"
    sides = [side for side in SIDES if getattr(load, f"pad_{side}")]
    yield from (f"load {target} pad {side}" for side in sides)
    if sides:
        yield f"load {target} pad value {_sign(load.pad_value)}"
    if load.flip:
        yield f"load flipped {target}"
    if load.widen:
        yield f"load zero point {_sign(load.zero_point)}"
    empty = [f"{axis}=0" for axis in "xy" if getattr(load, axis) == 0]
    if empty:
        yield f"load {' '.join(empty)}"
    else:
        yield from _row_hits("load", load, config)


def _row_hits(mnemonic: str, block: Load | Store, config: Config) -> Iterator[str]:
    row = block.x * dram_tile_bytes(block, config)
    if block.y > 1:
        yield f"{mnemonic} y stride {_row_stride(block.y_stride, row)}"
    if block.z > 1:
        yield f"{mnemonic} z stride {_row_stride(block.z_stride, row * block.y)}"
    z, y = np.ogrid[: block.z, : block.y]
    starts = (block.offset + z * block.z_stride + y * block.y_stride) % ADDRESS_SPAN
    if (starts // PAGE_BYTES != (starts + row - 1) // PAGE_BYTES).any():
        yield f"{mnemonic} row across 4 KiB"
    if row > config.axi_burst_beats * config.axi_bytes:
        yield f"{mnemonic} row longer than a burst"
    if (starts % config.axi_bytes).any():
        yield f"{mnemonic} row from inside a beat"


def _step_hits(instruction: Gemm | Alu, uops: dict[str, Int64]) -> Iterator[str]:
    mnemonic = type(instruction).__name__.lower()
    yield f"{mnemonic} {'one uop' if instruction.uop_count == 1 else 'several uops'} a loop"
    dst, src = (index % MAX_INDEX for index in alu_steps(instruction, uops))
    if (dst[1:] == dst[:-1]).any():
        yield f"{mnemonic} dst as the step before"
    operands = ("dst", "src", "weight") if isinstance(instruction, Gemm) else ("dst", "src")
    for loop in range(3):
        if getattr(instruction, f"extent_{loop}") > 1:
            for operand in operands:
                stride = getattr(instruction, f"{operand}_stride_{loop}")
                yield f"{mnemonic} {operand} stride {loop} {_direction(stride)}"
    if isinstance(instruction, Gemm):
        yield from _gemm_hits(instruction, uops)
    else:
        yield from _alu_hits(instruction)
        if not instruction.use_immediate and (src[1:] == dst[:-1]).any():
            yield "alu src as the dst of the step before"


def _gemm_hits(gemm: Gemm, uops: dict[str, Int64]) -> Iterator[str]:
    yield from (f"gemm overwrite={gemm.overwrite} first={f}" for f in set(uops["first"].tolist()))
    if gemm.overwrite:
        yield f"gemm overwrite reduce_mask={gemm.reduce_mask}"
    dst, _, _, overwrites = gemm_steps(gemm, uops)
    accumulated = set[int]()
    for tile, overwritten in zip(dst.tolist(), overwrites.tolist(), strict=True):
        if overwritten and tile in accumulated:
            yield "gemm overwrites after accumulating"
        accumulated.add(tile)


def _alu_hits(alu: Alu) -> Iterator[str]:
    op, operand = AluOp(alu.op), "immediate" if alu.use_immediate else "tile"
    yield f"alu {_name(op)} {operand}"
    if alu.use_immediate and alu.immediate < 0:
        yield f"alu {_name(op)} immediate <0"
    if op is AluOp.SHR:
        yield f"alu shr {_name(Rounding(alu.rounding))} {operand}"
        if alu.use_immediate and alu.immediate >= 32:
            yield "alu shr immediate >=32"


def _store_hits(store: Store, config: Config) -> Iterator[str]:
    kind = "raw" if store.raw else "output stage"
    yield f"store {kind} to {Segment(store.segment).name}"
    yield f"store {kind} early={store.early}"
    yield from _row_hits("store", store, config)
    if store.y * store.z > 1:
        yield f"store accumulator_row {_direction(store.accumulator_row)}"
    if store.raw:
        return
    limits = {(-128, 127): "int8", (0, 255): "uint8"}.get((store.low, store.high), "other")
    yield f"store limits {limits}"
    yield f"store round_away={store.round_away}"
    yield f"store zero point {_sign(store.zero_point)}"
    yield f"store log2_parameter_period={store.log2_parameter_period}"
    if store.z > 1:
        yield f"store parameter_step={store.parameter_step} of several planes"


def _sign(value: int) -> str:
    return "<0" if value < 0 else ">0" if value else "=0"


def _direction(stride: int) -> str:
    """Name the direction of a stride modulo 2^16."""
    return "down" if stride >= MAX_INDEX // 2 else "up" if stride else "zero"


def _row_stride(stride: int, dense: int) -> str:
    if stride >= ADDRESS_SPAN // 2:
        return "backwards"
    if stride in (0, dense):
        return "zero" if stride == 0 else "dense"
    return "apart" if stride > dense else "overlapping"
