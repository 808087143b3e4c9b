"""Draws of single instructions that are legal after the instructions before them."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tilewright.hw.config import MAX_INDEX, Config
from tilewright.hw.isa import (
    INSTRUCTION_BYTES,
    Alu,
    AluOp,
    Gemm,
    Instruction,
    Load,
    Memory,
    Rounding,
    Segment,
    Store,
)
from tilewright.sim.functional import ADDRESS_SPAN, alu_steps, gemm_steps
from tilewright.sim.functional_rules import PADDED_MEMORIES, dram_tile_bytes, row_alignment
from tilewright.sim.random_data import (
    TIE_SHIFTS,
    UopTables,
    parameters_region,
    random_segments,
    words_region,
)
from tilewright.sim.random_ordering import Access, units
from tilewright.sim.random_shapes import (
    Block,
    Rows,
    draw_block,
    draw_column,
    draw_rows,
    draw_size,
    draw_strides,
    pick,
    run_around,
)

DRAM_UNIT_BYTES = 4
"""No tile is smaller, so hazards in DRAM are tracked in pieces of this size."""

WRITTEN_SEGMENTS = (Segment.WORKSPACE, Segment.OUTPUT)
UOP_FIELDS = ("dst", "src", "weight", "first")

Int64 = NDArray[np.int64]
_Moved = TypeVar("_Moved", Load, Store)


def do_nothing() -> None:
    """Change nothing that is tracked."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An instruction that may come next, what it accesses, and what it does to `known`."""

    instruction: Instruction
    accesses: list[Access]
    effect: Callable[[], None] = do_nothing


class InstructionDraw:
    """Draws instructions; `accept` makes one the latest.

    `known[memory][tile]`: the tile holds a value that derives from initialised memory alone.
    `_uops[field][tile]`: what the known tiles of uop memory hold; `_for_gemm[tile]`: the uop
    was drawn for a GEMM.  With `spread`, LOADs write anywhere, else mostly where others did.
    """

    def __init__(self, config: Config, rng: np.random.Generator, *, spread: bool) -> None:
        self._config, self._rng, self._spread = config, rng, spread
        self._depths = {m: config.depths()[m.name.lower()] for m in Memory}
        self.known = {m: np.zeros(depth, bool) for m, depth in self._depths.items()}
        self._uops = {name: np.zeros(self._depths[Memory.UOP], np.int64) for name in UOP_FIELDS}
        self._for_gemm = np.zeros(self._depths[Memory.UOP], bool)
        self.segments = random_segments(config, rng)
        self._tables = UopTables(len(self.segments[Segment.CONSTANTS]))
        self._num_accepted = 0

    def places(self) -> dict[str, int]:
        """Return the number of units of each place that `Candidate.accesses` name."""
        sizes = {memory.name: depth for memory, depth in self._depths.items()}
        for segment in WRITTEN_SEGMENTS:
            sizes[_dram(segment)] = len(self.segments[segment]) // DRAM_UNIT_BYTES
        return sizes

    def accept(self, candidate: Candidate) -> None:
        """Go on from after the candidate."""
        candidate.effect()
        self._num_accepted += 1

    def constants(self) -> NDArray[np.uint8]:
        """Return the CONSTANTS segment with all uops drawn."""
        return np.concatenate([self.segments[Segment.CONSTANTS], self._tables.data()])

    def load_numbers(self, memory: Memory, limit: int) -> Candidate:
        """Return a LOAD of at most `limit` tiles of numbers or parameters."""
        rng = self._rng
        widen = int(memory is Memory.ACCUMULATOR and rng.random() < 0.5)
        form = Load(memory=memory, widen=widen)
        tile_bytes = dram_tile_bytes(form, self._config)
        most = len(self.segments[Segment.INPUT]) // tile_bytes
        limit = min(limit, self._depths[memory], most)
        block = draw_block(rng, limit, padded=memory in PADDED_MEMORIES)
        segment, region = self._draw_source(memory, block.x * tile_bytes)
        rows = draw_rows(
            rng,
            block,
            tile_bytes=tile_bytes,
            alignment=row_alignment(form, self._config),
            region=region,
        )
        flips = memory in (Memory.INPUT, Memory.WEIGHT) or widen
        load = dataclasses.replace(
            form,
            segment=segment,
            scratchpad=self._place(memory, block.num_tiles),
            **dataclasses.asdict(block),
            pad_value=pick(rng, 0, 1, 127, -128, int(rng.integers(-128, 128))),
            zero_point=widen * pick(rng, 0, 128, -256, int(rng.integers(-256, 256))),
            flip=int(flips and rng.random() < 0.4),
        )
        return self._load_candidate(load, block, rows)

    def load_uops(self, limit: int, *, for_gemm: bool) -> Candidate | None:
        """Return a LOAD of at most `limit` new uops, drawn to suit a GEMM or an ALU instruction."""
        rng = self._rng
        block = draw_block(rng, min(limit, 32, self._depths[Memory.UOP]))
        count = block.num_tiles
        sources = self.known_run(Memory.INPUT if for_gemm else Memory.ACCUMULATOR)
        width = draw_size(rng, 16)
        start = self._place(Memory.ACCUMULATOR, width)
        dst = start, start + width
        if not for_gemm and rng.random() < 0.8:
            dst = sources
        columns = {
            "dst": draw_column(rng, count, dst),
            "src": draw_column(rng, count, sources),
            "weight": draw_column(rng, count, self.known_run(Memory.WEIGHT)),
            "first": (rng.random(count) < rng.choice([0.0, 0.5, 1.0])).astype(np.int64),
        }
        if not for_gemm:
            columns["weight"] = rng.integers(0, MAX_INDEX, count)
        rows = self._tables.add(columns, block, rng)
        load = Load(
            memory=Memory.UOP,
            segment=Segment.CONSTANTS,
            scratchpad=self._place(Memory.UOP, count),
            **dataclasses.asdict(block),
        )
        candidate = self._load_candidate(load, block, rows)
        (access,) = candidate.accesses

        def effect() -> None:
            candidate.effect()
            for name, column in columns.items():
                self._uops[name][access.units] = column
            self._for_gemm[access.units] = for_gemm

        return dataclasses.replace(candidate, effect=effect)

    def _load_candidate(self, load: Load, block: Block, rows: Rows) -> Candidate:
        """Return the load with its rows, what it accesses, and its effect."""
        memory, segment = Memory(load.memory), Segment(load.segment)
        load = _with_rows(load, rows)
        written = load.scratchpad + np.arange(block.num_tiles)
        accesses = [Access(memory.name, written, writes=True)]
        if segment in WRITTEN_SEGMENTS and block.x:
            read = _dram_units(load, block.x * dram_tile_bytes(load, self._config))
            accesses.append(Access(_dram(segment), read))

        def effect() -> None:
            self.known[memory][written] = True

        return Candidate(load, accesses, effect)

    def gemm(self, limit: int) -> Candidate | None:
        """Return a GEMM of at most `limit` steps, or None where the uops drawn do not serve."""
        rng = self._rng
        loops = self._draw_loops(limit, for_gemm=True)
        places = (("dst", Memory.ACCUMULATOR), ("src", Memory.INPUT), ("weight", Memory.WEIGHT))
        strides = {name: self._loop_strides(loops, name, memory) for name, memory in places}
        if None in strides.values():
            return None
        gemm = Gemm(
            **loops,
            **{f"{n}_stride_{i}": s[i] for n, s in strides.items() if s for i in range(3)},
            overwrite=int(rng.random() < 0.7),
            reduce_mask=int(rng.integers(8)),
        )
        uops = self._uop_columns(loops)
        dst, src, weight, overwrites = gemm_steps(gemm, uops)
        dst, src, weight = dst % MAX_INDEX, src % MAX_INDEX, weight % MAX_INDEX
        operands = self.known[Memory.INPUT][src].all() and self.known[Memory.WEIGHT][weight].all()

        def effect() -> None:
            known = self.known[Memory.ACCUMULATOR]
            known[dst[overwrites]] = True
            known[dst] &= operands

        accesses = [
            units(Memory.ACCUMULATOR.name, dst, writes=True),
            units(Memory.INPUT.name, src),
            units(Memory.WEIGHT.name, weight),
            self._uop_access(loops),
        ]
        return Candidate(gemm, accesses, effect)

    def alu(self, limit: int) -> Candidate | None:
        """Return an ALU instruction; as `gemm`."""
        rng = self._rng
        loops = self._draw_loops(limit, for_gemm=rng.random() < 0.2)
        op = AluOp(pick(rng, *AluOp, AluOp.SHR, AluOp.SHR))
        use_immediate = op is AluOp.MAC or rng.random() < 0.5
        reads_tile = op is AluOp.MAC or not use_immediate
        dst_strides = self._loop_strides(loops, "dst", Memory.ACCUMULATOR)
        src_strides = self._loop_strides(loops, "src", Memory.ACCUMULATOR)
        if not reads_tile and rng.random() < 0.5:
            src_strides = rng.integers(0, MAX_INDEX, 3).tolist()
        if dst_strides is None or src_strides is None:
            return None
        wide = int(rng.integers(-(1 << 24), 1 << 24))
        small = int(rng.integers(-40, 70))
        alu = Alu(
            **loops,
            **{f"dst_stride_{i}": dst_strides[i] for i in range(3)},
            **{f"src_stride_{i}": src_strides[i] for i in range(3)},
            op=op,
            immediate=pick(rng, wide, small, -1, (1 << 24) - 1, -(1 << 24)),
            use_immediate=int(use_immediate),
            rounding=pick(rng, *Rounding) if op is AluOp.SHR else 0,
        )
        if op is AluOp.SHR and rng.random() < 0.8:
            amount = pick(rng, small, *TIE_SHIFTS, *(31, 32, 33, -31, -32))
            alu = dataclasses.replace(alu, immediate=amount)
        dst, src = alu_steps(alu, self._uop_columns(loops))
        dst, src = dst % MAX_INDEX, src % MAX_INDEX
        known = self.known[Memory.ACCUMULATOR]
        accesses = [units(Memory.ACCUMULATOR.name, dst, writes=True), self._uop_access(loops)]
        if reads_tile:
            accesses.append(units(Memory.ACCUMULATOR.name, src))

        def effect() -> None:
            sources = known[src].all() if reads_tile else True
            known[dst] = sources and (op is AluOp.MOV or known[dst].all())

        return Candidate(alu, accesses, effect)

    def store(self, window: tuple[int, int], limit: int = 1) -> Candidate | None:
        """Return a STORE of accumulators in the window, or None where they are not known."""
        rng = self._rng
        begin, end = window
        if not self.known[Memory.ACCUMULATOR][begin:end].all():
            return None
        form = Store(
            segment=WRITTEN_SEGMENTS[rng.integers(2)],
            raw=int(rng.random() < 0.25),
            early=int(rng.random() < 0.4),
            round_away=int(rng.random() < 0.4),
        )
        tile_bytes = dram_tile_bytes(form, self._config)
        size = len(self.segments[Segment(form.segment)])
        block = draw_block(rng, min(limit, end - begin, size // tile_bytes))
        base = int(rng.integers(begin, end - block.x + 1))
        (row,) = draw_strides(
            rng, (block.z * block.y,), (block.x,), down=base - begin, up=end - block.x - base
        )
        low, high = np.sort(rng.integers(-256, 256, 2)).tolist()
        low, high = [(-128, 127), (0, 255), (low, high)][rng.integers(3)]
        store = dataclasses.replace(
            form,
            accumulator=base,
            accumulator_row=row % MAX_INDEX,
            x=block.x,
            y=block.y,
            z=block.z,
            zero_point=pick(rng, 0, -128, int(rng.integers(-256, 256))),
            low=low,
            high=high,
        )
        rows = draw_rows(
            rng,
            block,
            tile_bytes=tile_bytes,
            alignment=row_alignment(store, self._config),
            region=(0, size),
        )
        return self.store_as_is(self._with_parameters(_with_rows(store, rows)))

    def store_as_is(self, store: Store) -> Candidate:
        """Return the STORE, with what it accesses."""
        row_bytes = store.x * dram_tile_bytes(store, self._config)
        z, y, x = np.ogrid[: store.z, : store.y, : store.x]
        tiles = store.accumulator + (z * store.y + y) * store.accumulator_row + x
        accesses = [
            units(Memory.ACCUMULATOR.name, tiles % MAX_INDEX),
            Access(_dram(Segment(store.segment)), _dram_units(store, row_bytes), writes=True),
        ]
        if not store.raw:
            period = 1 << store.log2_parameter_period
            parameter = store.parameter + x % period + store.parameter_step * period * z
            accesses.append(units(Memory.PARAMETER.name, parameter))
        return Candidate(store, accesses)

    def _with_parameters(self, store: Store) -> Store:
        """Choose parameter rows among the known ones."""
        rng = self._rng
        begin, end = self.known_run(Memory.PARAMETER)
        log2_period, step = int(rng.integers(8)), int(rng.integers(2))
        span = min(store.x, 1 << log2_period) + (step << log2_period) * (store.z - 1)
        if span > end - begin:
            log2_period, step, span = 0, 0, 1
        return dataclasses.replace(
            store,
            parameter=int(rng.integers(begin, end - span + 1)),
            parameter_step=step,
            log2_parameter_period=log2_period,
        )

    def _draw_source(self, memory: Memory, row_bytes: int) -> tuple[Segment, tuple[int, int]]:
        """Return a segment, and bytes of it with room for a row, to load `memory` from."""
        rng = self._rng
        prepared = {
            Memory.ACCUMULATOR: words_region(self._config),
            Memory.PARAMETER: parameters_region(self._config),
        }
        segment = Segment(int(rng.choice(list(Segment), p=[0.1, 0.25, 0.2, 0.3, 0.15])))
        if memory in prepared and rng.random() < 0.6:
            return Segment.CONSTANTS, prepared[memory]
        if segment is Segment.CODE:
            size = self._num_accepted * INSTRUCTION_BYTES
        else:
            size = len(self.segments[segment])
        if row_bytes > size:
            segment, size = Segment.INPUT, len(self.segments[Segment.INPUT])
        return segment, (0, size)

    def _place(self, memory: Memory, count: int) -> int:
        """Return where `count` tiles go: mostly where others are, so that runs are long."""
        rng = self._rng
        highest = self._depths[memory] - count
        if self._spread or rng.random() < 0.15:
            return int(rng.integers(0, highest + 1))
        arena = self._depths[memory] // 2 * int(rng.integers(2))
        return min(arena + int(rng.integers(0, 48)), highest)

    def known_run(self, memory: Memory) -> tuple[int, int]:
        """Return a run [begin, end) of known tiles; any single tile where none is known."""
        return self._draw_run(self.known[memory]) or (0, 1)

    def _draw_run(self, chosen: NDArray[np.bool_]) -> tuple[int, int] | None:
        tiles = np.flatnonzero(chosen)
        if not tiles.size:
            return None
        tile = int(self._rng.choice(tiles))
        return run_around(chosen, tile, tile)

    def _draw_loops(self, limit: int, *, for_gemm: bool) -> dict[str, int]:
        """Return uop range and extents of at most `limit` steps; the uops are known."""
        rng = self._rng
        known = self.known[Memory.UOP]
        suited = known & (self._for_gemm == for_gemm)
        begin, end = self._draw_run(suited) or self.known_run(Memory.UOP)
        count = draw_size(rng, min(end - begin, 16, limit))
        first = int(rng.integers(begin, end - count + 1))
        block = draw_block(rng, limit // count)
        extents = rng.permutation([block.x, block.y, block.z]).tolist()
        loops = {f"extent_{i}": extents[i] for i in range(3)}
        return {"uop_begin": first, "uop_count": count, **loops}

    def _uop_columns(self, loops: dict[str, int]) -> dict[str, Int64]:
        begin, count = loops["uop_begin"], loops["uop_count"]
        return {name: column[begin : begin + count] for name, column in self._uops.items()}

    def _uop_access(self, loops: dict[str, int]) -> Access:
        return units(Memory.UOP.name, loops["uop_begin"] + np.arange(loops["uop_count"]))

    def _loop_strides(
        self, loops: dict[str, int], operand: str, memory: Memory
    ) -> list[int] | None:
        """Return strides (modulo 2^16) that keep one operand inside a run of known tiles.

        None when a uop is past the memory's depth.
        """
        column = self._uop_columns(loops)[operand]
        low, high = int(column.min()), int(column.max())
        if high >= self._depths[memory]:
            return None
        begin, end = run_around(self.known[memory], low, high)
        inner = loops["extent_2"]
        strides = draw_strides(
            self._rng,
            [loops[f"extent_{i}"] for i in range(3)],
            (inner * loops["extent_1"], inner, 1),
            down=low - begin,
            up=end - 1 - high,
            zero=0.4 if operand == "dst" else 0.15,
        )
        return [stride % MAX_INDEX for stride in strides]


def _dram(segment: Segment) -> str:
    return f"{segment.name} segment"


def _with_rows(instruction: _Moved, rows: Rows) -> _Moved:
    return dataclasses.replace(
        instruction,
        offset=rows.offset,
        y_stride=rows.y_stride % ADDRESS_SPAN,
        z_stride=rows.z_stride % ADDRESS_SPAN,
    )


def _dram_units(instruction: Load | Store, row_bytes: int) -> Int64:
    """Return the pieces of its segment that the instruction's rows touch."""
    z, y = np.ogrid[: instruction.z, : instruction.y]
    starts = instruction.offset + z * instruction.z_stride + y * instruction.y_stride
    pieces = np.arange(row_bytes // DRAM_UNIT_BYTES)
    first = starts.reshape(-1, 1) % ADDRESS_SPAN // DRAM_UNIT_BYTES
    return np.unique(first + pieces)
