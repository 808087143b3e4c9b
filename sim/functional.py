"""The meaning of every instruction, executable: what a program does to memory, without time.

Scratchpads hold tiles as plain arrays ([rows][lanes]); only `_from_dram` and `_to_dram` know
how a tile's elements are ordered in bytes.  Sums are exact: matrix products run in floating
point only where no partial sum can leave the exact integers.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from tilewright.hw import numerics
from tilewright.hw.config import MAX_INDEX, Config
from tilewright.hw.encoding import decode, decode_fields
from tilewright.hw.errors import SimulationError
from tilewright.hw.isa import (
    UOP_BITS,
    Alu,
    AluOp,
    Finish,
    Gemm,
    Instruction,
    Load,
    Memory,
    Parameter,
    Rounding,
    Segment,
    Store,
    Uop,
    layout,
)
from tilewright.runtime.device import RunResult, Segments
from tilewright.sim.functional_rules import PADDED_MEMORIES, check_legal, dram_tile_bytes
from tilewright.sim.functional_schedule import Scheduler

Int64 = NDArray[np.int64]
Bytes = NDArray[np.uint8]

POISON = 0xA5
"""What every byte of the scratchpads holds at the start of a run unless asked otherwise."""

TOP_BIT = 0x80
ADDRESS_SPAN = 1 << 32
UOP_USED_BITS = sum(field.bits for field in layout(Uop))
LARGEST_PRODUCT = 1 << 14
FLOAT32_EXACT = 1 << 24
"""Integers up to this magnitude are exact in float32; (−128)² is the largest product."""


class FunctionalEngine:
    """A `Device` that runs programs by the meaning of their instructions.

    Scratchpads start poisoned.  With `rng` they start random, and the engines take turns at
    random wherever tokens leave a choice: a program without races gives the same memory.
    """

    def __init__(self, config: Config, *, rng: np.random.Generator | None = None) -> None:
        self.config = config
        self._rng = rng

    def run(self, segments: Segments) -> RunResult:
        """Run the CODE segment until FINISH; WORKSPACE and OUTPUT are written in place.

        Raises:
            SimulationError: an illegal instruction or field, an index past its memory, an
                access past its segment, a deadlock, or tokens left.
        """
        code = segments[Segment.CODE]
        machine = _Machine(self.config, segments, self._rng)
        scheduler = Scheduler(machine.begin, self.config.queue_depth, self._rng)
        scheduler.run(decode(code))
        return RunResult(
            counters=None,
            spans=None,
            bytes_read=machine.bytes_read,
            bytes_written=machine.bytes_written,
        )


class _Machine:
    """Scratchpads and DRAM of one run, and the traffic between them so far."""

    def __init__(self, config: Config, segments: Segments, rng: np.random.Generator | None) -> None:
        self._config = config
        self._segments = segments
        beat = config.axi_bytes
        self.bytes_read = -(-segments[Segment.CODE].size // beat) * beat
        self.bytes_written = 0
        batch, block_in, block_out = config.batch, config.block_in, config.block_out
        data = {name: _poisoned(size * 1024, rng) for name, size in _sizes_kib(config).items()}
        self._input = data["input"].view(np.int8).reshape(-1, batch, block_in)
        self._weight = data["weight"].view(np.int8).reshape(-1, block_out, block_in)
        self._accumulator = data["accumulator"].view(np.int32).reshape(-1, batch, block_out)
        self._uop = data["uop"].view(np.uint64)
        self._parameter = data["parameter"].view(np.uint64).reshape(-1, block_out)
        self._scratchpads: dict[Memory, NDArray[np.generic]] = {
            Memory.INPUT: self._input,
            Memory.WEIGHT: self._weight,
            Memory.ACCUMULATOR: self._accumulator,
            Memory.UOP: self._uop,
            Memory.PARAMETER: self._parameter,
        }

    def begin(self, instruction: Instruction) -> Callable[[], None]:
        """Check the instruction and read what it reads first; return what completes it.

        A LOAD reads DRAM first and a STORE the accumulators; other engines may overwrite
        those as soon as the tokens that say so arrive.
        """
        problem = check_legal(instruction, self._config)
        if problem:
            raise SimulationError(problem)
        match instruction:
            case Load():
                return self._load(instruction)
            case Gemm():
                return self._gemm(instruction)
            case Alu():
                return self._alu(instruction)
            case Store():
                return self._store(instruction)
            case Finish():
                return lambda: None

    def _load(self, load: Load) -> Callable[[], None]:
        memory = Memory(load.memory)
        scratchpad = self._scratchpads[memory]
        tile_bytes = dram_tile_bytes(load, self._config)
        block = np.zeros((load.z, load.y, load.x, tile_bytes), np.uint8)
        if block.size:
            block[:] = self._read_rows(load, load.x * tile_bytes).reshape(block.shape)
        if load.flip:
            block ^= np.uint8(TOP_BIT)
        tiles = self._from_dram(block.reshape(-1, tile_bytes), memory, widen=bool(load.widen))
        height = load.pad_top + load.y + load.pad_bottom
        width = load.pad_left + load.x + load.pad_right
        shape = tiles.shape[1:]
        fill = load.pad_value if memory in PADDED_MEMORIES else 0
        padded = np.full((load.z, height, width, *shape), fill, tiles.dtype)
        inside = padded[:, load.pad_top :, load.pad_left :]
        inside[:, : load.y, : load.x] = tiles.reshape(load.z, load.y, load.x, *shape)
        if load.widen:
            padded = padded - np.int32(load.zero_point)
        tiles = padded.reshape(-1, *shape)
        index = self._indices(memory, load.scratchpad + np.arange(len(tiles)))

        def complete() -> None:
            scratchpad[index] = tiles

        return complete

    def _gemm(self, gemm: Gemm) -> Callable[[], None]:
        dst, src, weight, overwrites = gemm_steps(gemm, self._uops(gemm))
        dst = self._indices(Memory.ACCUMULATOR, dst)
        src = self._indices(Memory.INPUT, src)
        weight = self._indices(Memory.WEIGHT, weight)

        def complete() -> None:
            for tiles, sources, weights, fresh in _reductions(dst, src, weight, overwrites):
                self._accumulate(tiles, sources, weights, fresh)

        return complete

    def _accumulate(self, dst: Int64, src: Int64, weight: Int64, fresh: NDArray[np.bool_]) -> None:
        """Acc[dst[d]] (0 where fresh[d]) += Σ_r input[src[d, r]] · weight[weight[r]]ᵀ.

        dst: distinct tiles [D]; src: [D, R]; weight: [R].
        """
        accumulators = self._accumulator
        block_out, block_in = self._config.block_out, self._config.block_in
        terms = len(weight) * block_in
        exact = np.float32 if terms * LARGEST_PRODUCT <= FLOAT32_EXACT else np.float64
        inputs = self._input[src].transpose(0, 2, 1, 3)
        weights = self._weight[weight].transpose(0, 2, 1)
        sums = inputs.reshape(-1, terms).astype(exact) @ weights.reshape(terms, -1).astype(exact)
        old = np.where(fresh[:, None, None], 0, accumulators[dst].astype(np.int64))
        sums = sums.reshape(len(dst), -1, block_out).astype(np.int64)
        accumulators[dst] = numerics.wrap_int32(old + sums)

    def _alu(self, alu: Alu) -> Callable[[], None]:
        accumulators = self._accumulator
        dst, src = alu_steps(alu, self._uops(alu))
        reads_tile = alu.op == AluOp.MAC or not alu.use_immediate
        dst = self._indices(Memory.ACCUMULATOR, dst)
        src = self._indices(Memory.ACCUMULATOR, src) if reads_tile else dst

        def complete() -> None:
            for steps in _independent_steps(dst, src):
                a = accumulators[dst[steps]].astype(np.int64)
                b = accumulators[src[steps]].astype(np.int64)
                accumulators[dst[steps]] = alu_result(alu, a, b)

        return complete

    def _store(self, store: Store) -> Callable[[], None]:
        z, y, x = np.ogrid[: store.z, : store.y, : store.x]
        tile = store.accumulator + (z * store.y + y) * store.accumulator_row + x
        index = self._indices(Memory.ACCUMULATOR, tile.reshape(-1))
        tiles = self._accumulator[index].astype(np.int64)
        if store.raw:
            data = self._to_dram(tiles.astype(np.int32))
        else:
            period = 1 << store.log2_parameter_period
            step = z * period if store.parameter_step else 0
            row = np.broadcast_to(store.parameter + x % period + step, tile.shape).reshape(-1)
            words = self._parameter[self._indices(Memory.PARAMETER, row)]
            constants = decode_fields(words, Parameter)
            bias, multiplier, shift = (
                constants[name][:, None, :] for name in ("bias", "multiplier", "shift")
            )
            values = numerics.requantize(
                tiles,
                bias,
                multiplier,
                shift,
                zero_point=store.zero_point,
                low=store.low,
                high=store.high,
                rounding=Rounding.HALF_AWAY if store.round_away else Rounding.HALF_EVEN,
            )
            data = self._to_dram(values.astype(np.int8))
        rows = data.reshape(store.z * store.y, -1)
        starts = self._row_starts(store, rows.shape[1])
        segment = self._segments[Segment(store.segment)]

        def complete() -> None:
            for start, row in zip(starts, rows, strict=True):
                segment[start : start + len(row)] = row
            self.bytes_written += rows.size

        return complete

    def _uops(self, instruction: Gemm | Alu) -> dict[str, Int64]:
        index = instruction.uop_begin + np.arange(instruction.uop_count)
        words = self._uop[self._indices(Memory.UOP, index)]
        illegal = np.flatnonzero(words >> np.uint64(UOP_USED_BITS))
        if illegal.size:
            word = int(words[illegal[0]])
            raise SimulationError(
                f"uop {instruction.uop_begin + illegal[0]} is 0x{word:016x}, with bits set past"
                f" the lower {UOP_USED_BITS} of {UOP_BITS}; was it loaded?"
            )
        return decode_fields(words, Uop)

    def _indices(self, memory: Memory, index: Int64) -> Int64:
        """Take indices modulo 2^16 and check them against the memory's depth."""
        index = index % MAX_INDEX
        depth = len(self._scratchpads[memory])
        past = index >= depth
        if past.any():
            raise SimulationError(
                f"{memory.name.lower()} index {index[past][0]} is past depth {depth}"
            )
        return index

    def _row_starts(self, instruction: Load | Store, row_bytes: int) -> Int64:
        """Return where each row (z, y) begins in its segment, in order; checks the end."""
        z, y = np.ogrid[: instruction.z, : instruction.y]
        offsets = z * instruction.z_stride + y * instruction.y_stride
        starts: Int64 = (instruction.offset + offsets.reshape(-1)) % ADDRESS_SPAN
        segment = Segment(instruction.segment)
        size = len(self._segments.get(segment, ()))
        past = starts + row_bytes > size
        if past.any():
            start = starts[past][0]
            raise SimulationError(
                f"row at bytes {start} to {start + row_bytes - 1} is past the {size} bytes of"
                f" segment {segment.name}"
            )
        return starts

    def _read_rows(self, load: Load, row_bytes: int) -> Bytes:
        starts = self._row_starts(load, row_bytes)
        beat = self._config.axi_bytes
        beats = -(-(starts + row_bytes) // beat) - starts // beat
        self.bytes_read += int(beats.sum()) * beat
        return sliding_window_view(self._segments[Segment(load.segment)], row_bytes)[starts]

    def _from_dram(self, data: Bytes, memory: Memory, *, widen: bool) -> NDArray[np.generic]:
        """Return [tiles][rows][lanes] of uint8[tiles][bytes] as the scratchpad holds them."""
        scratchpad = self._scratchpads[memory]
        elements = data.view(np.int8 if widen else scratchpad.dtype.newbyteorder("<"))
        tiles = elements.astype(scratchpad.dtype)
        if memory in (Memory.INPUT, Memory.ACCUMULATOR):
            batch, sub = self._config.batch, self._config.sub_lanes
            lanes = scratchpad.shape[-1]
            tiles = tiles.reshape(-1, lanes // sub, batch, sub).transpose(0, 2, 1, 3)
        return tiles.reshape(len(data), *scratchpad.shape[1:])

    def _to_dram(self, tiles: NDArray[np.int8] | NDArray[np.int32]) -> Bytes:
        """Return uint8[tiles][bytes] of accumulator-shaped tiles[tiles][BATCH][BLOCK_OUT]."""
        sub = self._config.sub_lanes
        split = tiles.reshape(len(tiles), self._config.batch, -1, sub).transpose(0, 2, 1, 3)
        ordered = np.ascontiguousarray(split).astype(tiles.dtype.newbyteorder("<"))
        return ordered.view(np.uint8).reshape(len(tiles), -1)


def gemm_steps(gemm: Gemm, uops: dict[str, Int64]) -> tuple[Int64, Int64, Int64, NDArray[np.bool_]]:
    """Return dst, src, weight (not yet modulo 2^16) and "overwrites" of each step in order."""
    loops = _loop_indices(gemm)
    dst, src = alu_steps(gemm, uops)
    strides = (gemm.weight_stride_0, gemm.weight_stride_1, gemm.weight_stride_2)
    weight = _affine(loops, strides, uops["weight"])
    restarts = np.full(loops.shape[1], bool(gemm.overwrite))
    for loop in range(3):
        if gemm.reduce_mask >> loop & 1:
            restarts &= loops[loop] == 0
    return dst, src, weight, (restarts[:, None] & (uops["first"] == 1)).reshape(-1)


def alu_steps(instruction: Gemm | Alu, uops: dict[str, Int64]) -> tuple[Int64, Int64]:
    """Return dst and src of each step in order, not yet modulo 2^16."""
    i = instruction
    loops = _loop_indices(i)
    dst = _affine(loops, (i.dst_stride_0, i.dst_stride_1, i.dst_stride_2), uops["dst"])
    src = _affine(loops, (i.src_stride_0, i.src_stride_1, i.src_stride_2), uops["src"])
    return dst, src


def _loop_indices(instruction: Gemm | Alu) -> Int64:
    """Return int64[3, iterations]: the loop indices, loop 2 fastest."""
    extents = (instruction.extent_0, instruction.extent_1, instruction.extent_2)
    return np.indices(extents, np.int64).reshape(3, -1)


def _affine(loops: Int64, strides: tuple[int, int, int], uops: Int64) -> Int64:
    """Return each step's index; the uops are the innermost loop."""
    return ((np.array(strides, np.int64) @ loops)[:, None] + uops).reshape(-1)


def alu_result(alu: Alu, a: Int64, b: Int64) -> Int64:
    """Return op(a, b) as int32 values; b is the source tile, even where the immediate serves."""
    second = np.asarray(alu.immediate if alu.use_immediate else b, np.int64)
    result = np.broadcast_to(second, a.shape)
    match AluOp(alu.op):
        case AluOp.MIN:
            result = np.minimum(a, second)
        case AluOp.MAX:
            result = np.maximum(a, second)
        case AluOp.ADD:
            result = a + second
        case AluOp.SUB:
            result = a - second
        case AluOp.MUL:
            result = numerics.wrap_signed(a, 18) * numerics.wrap_signed(second, 25)
        case AluOp.SHR:
            result = numerics.shift_right(a, second, Rounding(alu.rounding))
        case AluOp.MAC:
            result = a + numerics.wrap_signed(b, 18) * alu.immediate
        case AluOp.MOV:
            pass
    return numerics.wrap_int32(result)


def _reductions(
    dst: Int64, src: Int64, weight: Int64, overwrites: NDArray[np.bool_]
) -> Iterator[tuple[Int64, Int64, Int64, NDArray[np.bool_]]]:
    """Group the steps of a GEMM into matrix products, as `_accumulate` takes them.

    Wrapping sums commute, so of each tile's steps only those from its last overwrite on
    count, in any order.  Tiles that meet the same weights in the same order share a product.
    """
    order, starts, counts = _grouped(dst)
    tiles = dst[order[starts]]
    last_overwrite = np.maximum.reduceat(
        np.where(overwrites[order], np.arange(len(order)), -1), starts
    )
    fresh = last_overwrite >= 0
    counts -= np.where(fresh, last_overwrite - starts, 0)
    starts = np.maximum(starts, last_overwrite)
    for count in np.unique(counts):
        chosen = np.flatnonzero(counts == count)
        steps = order[starts[chosen][:, None] + np.arange(count)]
        weights = weight[steps]
        left = np.arange(len(chosen))
        while left.size:
            same = (weights[left] == weights[left[0]]).all(axis=1)
            rows, left = left[same], left[~same]
            yield tiles[chosen[rows]], src[steps[rows]], weights[rows[0]], fresh[chosen[rows]]


def _independent_steps(dst: Int64, src: Int64) -> Iterator[Int64]:
    """Split an ALU instruction's steps into runs that may execute at once, in order.

    No step of a run reads or writes a tile that an earlier step of the run wrote.
    """
    if np.array_equal(dst, src) or not np.isin(src, dst).any():
        # Steps of different tiles never meet: the n-th steps of all tiles go together.
        order, starts, counts = _grouped(dst)
        for turn in range(counts.max()):
            yield order[starts[counts > turn] + turn]
        return
    begin, written = 0, set[int]()
    for step, (to, of) in enumerate(zip(dst.tolist(), src.tolist(), strict=True)):
        if to in written or of in written:
            yield np.arange(begin, step)
            begin, written = step, set()
        written.add(to)
    yield np.arange(begin, len(dst))


def _sizes_kib(config: Config) -> dict[str, int]:
    return {memory: getattr(config, f"{memory}_kib") for memory in config.depths()}


def _grouped(values: Int64) -> tuple[Int64, Int64, Int64]:
    """Return (order, starts, counts): a stable order by value, and its runs of equal values."""
    order = np.argsort(values.astype(np.uint16), kind="stable")
    starts = np.flatnonzero(np.diff(values[order], prepend=-1))
    return order, starts, np.diff(starts, append=len(values))


def _poisoned(num_bytes: int, rng: np.random.Generator | None) -> Bytes:
    if rng is None:
        return np.full(num_bytes, POISON, np.uint8)
    return rng.integers(0, 256, num_bytes, np.uint8)
