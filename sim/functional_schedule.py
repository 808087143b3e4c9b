"""In which order the engines of the functional model run: fetch, queues and tokens, no time."""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tilewright.hw.encoding import disassemble
from tilewright.hw.errors import SimulationError
from tilewright.hw.isa import Engine, Finish, Instruction, Store

MAX_TOKENS = (1 << 16) - 1
"""What a token counter holds."""

Begin = Callable[[Instruction], Callable[[], None]]
"""Begins an instruction: reads what it reads first, and returns what completes it."""


@dataclass(slots=True)
class _EngineState:
    """One engine: its queue of (index within the engine, instruction) and what it is doing."""

    queue: deque[tuple[int, Instruction]] = field(default_factory=deque)
    num_dispatched: int = 0
    in_flight: tuple[int, Instruction, Callable[[], None]] | None = None


class Scheduler:
    """Dispatches instructions in order to three bounded queues; tokens do the rest.

    Whether a program finishes does not depend on the order in which engines that could go on
    take turns, so any order serves.  With `rng` the turns are random and an instruction's two
    halves are apart, which shows races; without, an engine runs each instruction whole.
    """

    def __init__(
        self, begin: Begin, queue_depth: int, rng: np.random.Generator | None = None
    ) -> None:
        self._begin = begin
        self._queue_depth = queue_depth
        self._rng = rng
        self._engines = {engine: _EngineState() for engine in Engine}
        self._tokens = {(a, b): 0 for a in Engine for b in Engine if a is not b}

    def run(self, instructions: Sequence[Instruction]) -> None:
        """Run to FINISH, which must be the last instruction and the only one of its kind.

        Raises:
            SimulationError: FINISH is missing or early, an instruction broke a rule, the
                engines deadlock, or tokens are left.
        """
        _check_finish(instructions)
        for index, instruction in enumerate(instructions):
            engine = self._engines[instruction.ENGINE]
            while len(engine.queue) == self._queue_depth:
                if not self._advance():
                    name = instruction.ENGINE.name.lower()
                    raise SimulationError(
                        f"fetch instruction {index} ({disassemble(instruction)}): deadlock, the"
                        f" {name} queue of {self._queue_depth} is full: {self._waits()}"
                    )
            engine.queue.append((engine.num_dispatched, instruction))
            engine.num_dispatched += 1
            if self._rng is None or self._rng.integers(2):
                self._advance()
        while self._advance():
            pass
        if any(engine.queue for engine in self._engines.values()):
            raise SimulationError(f"deadlock: {self._waits()}")
        left = [
            f"{count} from {a.name.lower()} to {b.name.lower()}"
            for (a, b), count in self._tokens.items()
            if count
        ]
        if left:
            raise SimulationError(f"tokens left at FINISH: {', '.join(left)}; pop all of them")

    def _advance(self) -> bool:
        """Let one engine do its next half instruction, or (without rng) all do what they can."""
        if self._rng is not None:
            turns = [step for engine in Engine if (step := self._next_step(engine))]
            if turns:
                turns[self._rng.integers(len(turns))]()
            return bool(turns)
        advanced = False
        for engine in Engine:
            while step := self._next_step(engine):
                step()
                advanced = True
        return advanced

    def _next_step(self, engine: Engine) -> Callable[[], None] | None:
        state = self._engines[engine]
        if state.in_flight:
            return lambda: self._retire(engine)
        if not state.queue or any(self._tokens[pop] == 0 for pop in _pops(state.queue[0][1])):
            return None
        return lambda: self._take(engine)

    def _take(self, engine: Engine) -> None:
        state = self._engines[engine]
        index, instruction = state.queue.popleft()
        for pop in _pops(instruction):
            self._tokens[pop] -= 1
        try:
            complete = self._begin(instruction)
        except SimulationError as error:
            raise SimulationError(f"{_where(index, instruction)}: {error}") from None
        state.in_flight = index, instruction, complete
        if _is_early(instruction) and instruction.push_previous:
            self._push(index, instruction, engine.previous)

    def _retire(self, engine: Engine) -> None:
        state = self._engines[engine]
        assert state.in_flight
        index, instruction, complete = state.in_flight
        state.in_flight = None
        complete()
        if instruction.push_previous and not _is_early(instruction):
            self._push(index, instruction, engine.previous)
        if instruction.push_next:
            self._push(index, instruction, engine.next)

    def _push(self, index: int, instruction: Instruction, target: Engine) -> None:
        channel = instruction.ENGINE, target
        if self._tokens[channel] == MAX_TOKENS:
            raise SimulationError(
                f"{_where(index, instruction)}: more than {MAX_TOKENS} tokens wait"
                f" from {channel[0].name.lower()} to {target.name.lower()}"
            )
        self._tokens[channel] += 1

    def _waits(self) -> str:
        lines = []
        for state in self._engines.values():
            if state.queue:
                index, instruction = state.queue[0]
                missing = [a.name.lower() for a, b in _pops(instruction) if not self._tokens[a, b]]
                lines.append(
                    f"{_where(index, instruction)} waits for a token from {' and '.join(missing)}"
                )
        return "; ".join(lines)


def _check_finish(instructions: Sequence[Instruction]) -> None:
    if not instructions or not isinstance(instructions[-1], Finish):
        raise SimulationError("code: the last instruction must be FINISH")
    for index, instruction in enumerate(instructions[:-1]):
        if isinstance(instruction, Finish):
            raise SimulationError(
                f"code: instruction {index} of {len(instructions)} is FINISH; only the last may be"
            )


def _pops(instruction: Instruction) -> Iterable[tuple[Engine, Engine]]:
    engine = instruction.ENGINE
    if instruction.pop_previous:
        yield engine.previous, engine
    if instruction.pop_next:
        yield engine.next, engine


def _is_early(instruction: Instruction) -> bool:
    return isinstance(instruction, Store) and bool(instruction.early)


def _where(index: int, instruction: Instruction) -> str:
    name = instruction.ENGINE.name.lower()
    return f"{name} instruction {index} ({disassemble(instruction)})"
