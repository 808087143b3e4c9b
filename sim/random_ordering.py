"""Dependency tokens for a list of instructions: every hazard between engines gets ordered."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.hw.isa import Engine, Instruction

TOKEN_BITS = ("pop_previous", "pop_next", "push_previous", "push_next")


@dataclass(frozen=True, slots=True)
class Access:
    """What an instruction reads or writes: `units` (tiles, or pieces of DRAM) of a place."""

    place: str
    units: NDArray[np.int64]
    writes: bool = False


@dataclass(slots=True)
class _Entry:
    instruction: Instruction
    tokens: set[str]


class Ordering:
    """Collects instructions in fetch order and decides their token bits.

    Two instructions of different engines conflict when both access a unit and one writes it.
    The later one then pops a token that the earlier one, or a later instruction of the same
    engine, pushes.  Pairs on a channel never cross, so the n-th pop takes the n-th push; and
    every pop waits for an instruction that was fetched before, so nothing can deadlock,
    however short the queues.
    """

    def __init__(self, sizes: Mapping[str, int], rng: np.random.Generator) -> None:
        """Take the number of units of each place."""
        self._rng = rng
        self._entries: list[_Entry] = []
        never = -1
        self._read = {(e, p): np.full(n, never) for e in Engine for p, n in sizes.items()}
        self._written = {(e, p): np.full(n, never) for e in Engine for p, n in sizes.items()}
        self._ordered_up_to = {(a, b): never for a in Engine for b in Engine if a is not b}

    def __len__(self) -> int:
        """Return how many instructions were appended."""
        return len(self._entries)

    def needed(self, engine: Engine, accesses: Sequence[Access]) -> dict[Engine, int]:
        """Return, by engine, the latest instruction that must come first and has no token yet."""
        needed = {}
        for other in (engine.previous, engine.next):
            latest = max((self._latest_conflict(other, access) for access in accesses), default=-1)
            if latest > self._ordered_up_to[other, engine]:
                needed[other] = latest
        return needed

    def append(
        self, instruction: Instruction, accesses: Sequence[Access], *, extra_tokens: float
    ) -> None:
        """Add an instruction after all before it, with the tokens it needs.

        With probability `extra_tokens` a neighbour that it need not wait for gives it one too.
        """
        engine = instruction.ENGINE
        needed = self.needed(engine, accesses)
        self._entries.append(_Entry(instruction, set()))
        index = len(self._entries) - 1
        for other in (engine.previous, engine.next):
            if other in needed or self._rng.random() < extra_tokens:
                self._order(other, index, needed.get(other, 0))
        for access in accesses:
            table = self._written if access.writes else self._read
            table[engine, access.place][access.units] = index

    def instructions(self) -> list[Instruction]:
        """Return the instructions with their token bits."""
        return [_with_tokens(entry.instruction, entry.tokens) for entry in self._entries]

    def _latest_conflict(self, other: Engine, access: Access) -> int:
        if not access.units.size:
            return -1
        latest = self._written[other, access.place][access.units].max()
        if access.writes:
            latest = max(latest, self._read[other, access.place][access.units].max())
        return int(latest)

    def _order(self, other: Engine, index: int, earliest: int) -> None:
        """Let instruction `index` pop a token pushed by `other` at `earliest` or later."""
        engine = self._entries[index].instruction.ENGINE
        earliest = max(earliest, self._ordered_up_to[other, engine] + 1)
        pushers = [
            i for i in range(earliest, index) if self._entries[i].instruction.ENGINE is other
        ]
        if not pushers:
            return
        pusher = pushers[0] if self._rng.integers(2) else int(self._rng.choice(pushers))
        self._ordered_up_to[other, engine] = pusher
        self._entries[index].tokens.add("pop_previous" if other is engine.previous else "pop_next")
        self._entries[pusher].tokens.add(
            "push_previous" if engine is other.previous else "push_next"
        )


def _with_tokens(instruction: Instruction, tokens: set[str]) -> Instruction:
    bits = {name: int(name in tokens) for name in TOKEN_BITS}
    return type(instruction)(**{**dataclasses.asdict(instruction), **bits})


def units(place: str, index: Iterable[int] | NDArray[np.int64], *, writes: bool = False) -> Access:
    """Return an access to the distinct units of `index`."""
    return Access(place, np.unique(np.asarray(index, np.int64)), writes)
