"""Random legal programs, to compare two engines of one config with.

A program is free of races and deadlock by construction, and everything that reaches DRAM
derives from initialised memory: whatever the timing, every engine must leave the same bytes
in WORKSPACE and OUTPUT.
"""

from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from tilewright.hw.config import Config
from tilewright.hw.encoding import encode
from tilewright.hw.isa import Engine, Finish, Instruction, Memory, Segment, Store
from tilewright.sim.functional_rules import check_legal
from tilewright.sim.random_instructions import Candidate, InstructionDraw
from tilewright.sim.random_ordering import Ordering


class Style(StrEnum):
    """What a program is meant to stress."""

    MIXED = "mixed"
    """A bit of everything."""
    LIGHT = "light"
    """Few dependencies: engines run far apart."""
    CHAINED = "chained"
    """Short GEMMs and ALUs, each followed by a STORE of its result."""
    QUEUES = "queues"
    """Runs of short instructions for one engine, longer than its queue."""


STEP_LIMITS = {
    Style.MIXED: (1, 8, 64, 400),
    Style.LIGHT: (16, 128),
    Style.CHAINED: (1, 1, 4, 16),
    Style.QUEUES: (1, 2),
}
"""The most steps, or tiles, of one instruction; one is drawn each time."""


@dataclass(frozen=True, slots=True)
class RandomProgram:
    """A program and its data; a run writes to WORKSPACE and OUTPUT, so run copies."""

    config: Config
    style: Style
    instructions: tuple[Instruction, ...]
    segments: dict[Segment, NDArray[np.uint8]]

    def copy_segments(self) -> dict[Segment, NDArray[np.uint8]]:
        """Return fresh segments for one run."""
        return {segment: data.copy() for segment, data in self.segments.items()}


def random_program(
    config: Config,
    rng: np.random.Generator,
    *,
    instructions: int = 60,
    style: Style | None = None,
) -> RandomProgram:
    """Return a program of about `instructions` instructions; its style is drawn unless given."""
    if style is None:
        style = list(Style)[rng.integers(len(Style))]
    return _Generator(config, rng, style).generate(instructions)


class _Generator:
    """Draws one instruction after the other, and orders them."""

    def __init__(self, config: Config, rng: np.random.Generator, style: Style) -> None:
        self._config, self._rng, self._style = config, rng, style
        self._instructions = InstructionDraw(config, rng, spread=style is Style.LIGHT)
        self._ordering = Ordering(self._instructions.places(), rng)
        self._extra_tokens = 0.0 if style is Style.LIGHT else float(rng.choice([0.0, 0.1, 0.4]))

    def generate(self, num_instructions: int) -> RandomProgram:
        """Return the program."""
        loaded = (Memory.INPUT, Memory.WEIGHT, Memory.ACCUMULATOR, Memory.PARAMETER)
        for memory in self._rng.permutation(loaded):
            self._emit(self._instructions.load_numbers(Memory(memory), 64))
        self._emit(self._instructions.load_uops(32, for_gemm=True))
        self._emit(self._instructions.load_uops(32, for_gemm=False))
        while len(self._ordering) < num_instructions:
            self._emit_some()
        self._store_accumulators()
        self._emit(Candidate(Finish(), []))
        instructions = self._ordering.instructions()
        segments = {
            **self._instructions.segments,
            Segment.CONSTANTS: self._instructions.constants(),
            Segment.CODE: encode(instructions).reshape(-1).copy(),
        }
        return RandomProgram(self._config, self._style, tuple(instructions), segments)

    def _emit_some(self) -> None:
        match self._style:
            case Style.MIXED:
                self._emit(self._draw(self._draw_engine()))
            case Style.LIGHT:
                engine = self._draw_engine()
                found = [c for _ in range(8) if (c := self._draw(engine))]
                free = [c for c in found if not self._ordering.needed(engine, c.accesses)]
                self._emit(next(iter(free or found), None))
            case Style.CHAINED:
                if self._rng.random() < 0.3:
                    self._emit(self._draw(Engine.LOAD))
                compute = self._draw(Engine.COMPUTE)
                self._emit(compute)
                if compute:
                    written = next(a for a in compute.accesses if a.writes).units
                    self._emit(self._instructions.store((int(written[0]), int(written[0]) + 1)))
            case Style.QUEUES:
                engine = self._draw_engine()
                for _ in range(self._config.queue_depth + int(self._rng.integers(1, 6))):
                    self._emit(self._draw(engine))

    def _draw_engine(self) -> Engine:
        return Engine(int(self._rng.choice(3, p=[0.35, 0.4, 0.25])))

    def _draw(self, engine: Engine) -> Candidate | None:
        """Return an instruction for `engine`, or None where the draw did not fit."""
        limit = int(self._rng.choice(STEP_LIMITS[self._style]))
        match engine:
            case Engine.LOAD:
                if self._rng.random() < 0.3:
                    return self._instructions.load_uops(limit, for_gemm=self._rng.random() < 0.5)
                memory = self._rng.choice([m for m in Memory if m is not Memory.UOP])
                return self._instructions.load_numbers(Memory(memory), limit)
            case Engine.COMPUTE:
                return (
                    self._instructions.gemm(limit)
                    if self._rng.random() < 0.5
                    else self._instructions.alu(limit)
                )
            case Engine.STORE:
                return self._instructions.store(
                    self._instructions.known_run(Memory.ACCUMULATOR), limit
                )

    def _emit(self, candidate: Candidate | None) -> None:
        if candidate is None:
            return
        problem = check_legal(candidate.instruction, self._config)
        assert problem is None, f"{candidate.instruction}: {problem}"
        self._ordering.append(
            candidate.instruction, candidate.accesses, extra_tokens=self._extra_tokens
        )
        self._instructions.accept(candidate)

    def _store_accumulators(self) -> None:
        """Show accumulators that are known at the end: a few runs, in half of OUTPUT."""
        tile = self._config.accumulator_tile_bytes
        room = len(self._instructions.segments[Segment.OUTPUT]) // 2 // tile
        offset = 0
        for _ in range(4):
            begin, end = self._instructions.known_run(Memory.ACCUMULATOR)
            x = min(end - begin, room - offset // tile)
            if x and self._instructions.known[Memory.ACCUMULATOR][begin]:
                store = Store(segment=Segment.OUTPUT, offset=offset, accumulator=begin, x=x, raw=1)
                self._emit(self._instructions.store_as_is(store))
                offset += x * tile
