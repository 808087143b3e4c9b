"""Dependency tokens from read and write regions.

Engines run their own instructions in order; between engines only tokens order things.  For
each task the latest conflicting task of each other engine must have retired before it begins
(for a STORE whose accumulators are overwritten: must have read them).  A token is spent only
if no chain of earlier tokens says so already, which vector clocks tell.

Each token goes from a later pusher to a later popper than the one before it in the same
direction, so pushes and pops match one to one and in order; a task has at most one of each
per direction.  Every token comes from an earlier task of the program.  Fetch dispatches in
program order; hence the earliest task that has not retired always has room in its queue and
its tokens at hand, and no program deadlocks at any queue depth.  `deadlock.py` checks it.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from tilewright.compiler.backends.accelerator.task import (
    DramAccess,
    ScratchpadAccess,
    Task,
)
from tilewright.hw import isa
from tilewright.hw.config import Config
from tilewright.hw.isa import Engine, Memory, Segment

NUM_ENGINES = len(Engine)
NUM_EVENTS = NUM_ENGINES + 1
STORE_READ = 3
"""Events 0 to 2 are retirements by engine; this one is a STORE's last accumulator read."""

Clock = list[int]
"""By event: the 1-based position, in its engine, of the last task it is known of."""

_HAZARD_SEGMENTS = (Segment.WORKSPACE, Segment.OUTPUT)
"""Only what the machine writes can conflict."""


@dataclass(slots=True)
class _History:
    """Who touched each unit of a memory last: position by engine, for reads and writes."""

    reads: NDArray[np.int32]
    writes: NDArray[np.int32]

    @classmethod
    def of(cls, size: int) -> "_History":
        shape = (NUM_ENGINES, size)
        return cls(np.zeros(shape, np.int32), np.zeros(shape, np.int32))


@dataclass(slots=True)
class _Tokens:
    """Tokens by task: directions that it pops from and pushes to."""

    pops: dict[int, set[Engine]] = field(default_factory=dict)
    pushes: dict[int, set[Engine]] = field(default_factory=dict)


def add_tokens(tasks: list[Task], config: Config, segment_bytes: dict[Segment, int]) -> list[Task]:
    """Return the tasks with their tokens."""
    return _Deriver(tasks, config, segment_bytes).run()


class _Deriver:
    def __init__(
        self, tasks: list[Task], config: Config, segment_bytes: dict[Segment, int]
    ) -> None:
        self._tasks = tasks
        self._unit = min(config.input_tile_bytes, config.output_tile_bytes)
        self._scratchpads = {
            memory: _History.of(config.depths()[memory.name.lower()]) for memory in Memory
        }
        self._dram = {
            segment: _History.of(-(-segment_bytes.get(segment, 0) // self._unit))
            for segment in _HAZARD_SEGMENTS
        }
        self._known: dict[Engine, Clock] = {engine: [0] * NUM_EVENTS for engine in Engine}
        self._begun: dict[Engine, list[Clock]] = {engine: [] for engine in Engine}
        self._index: dict[Engine, list[int]] = {engine: [] for engine in Engine}
        self._tokens = _Tokens()

    def run(self) -> list[Task]:
        for index, task in enumerate(self._tasks):
            self._visit(index, task)
        return [self._with_tokens(index, task) for index, task in enumerate(self._tasks)]

    def _visit(self, index: int, task: Task) -> None:
        engine, needs = task.engine, [0] * NUM_EVENTS
        position = len(self._index[engine]) + 1
        for access in task.accesses:
            self._collect(access, engine, needs)
        self._order(index, engine, needs)
        self._begun[engine].append(list(self._known[engine]))
        self._index[engine].append(index)
        for access in task.accesses:
            reads, writes = self._regions(access)
            if reads is not None and writes is not None:
                (writes if access.write else reads)[engine] = position

    def _regions(
        self, access: ScratchpadAccess | DramAccess
    ) -> tuple[NDArray[np.int32] | None, NDArray[np.int32] | None]:
        """Views [engine, ...] of the reads and writes of what is accessed."""
        match access:
            case ScratchpadAccess(memory, start, count):
                history = self._scratchpads[memory]
                part = slice(start, start + count)
                return history.reads[:, part], history.writes[:, part]
            case DramAccess(segment):
                if segment not in self._dram or access.row_bytes == 0:
                    return None, None
                history = self._dram[segment]
                return self._rows(history.reads, access), self._rows(history.writes, access)

    def _rows(self, array: NDArray[np.int32], access: DramAccess) -> NDArray[np.int32]:
        item, unit = array.itemsize, self._unit
        start = access.start // unit
        return as_strided(
            array[:, start:],
            (NUM_ENGINES, access.z, access.y, -(-access.row_bytes // unit)),
            (
                array.strides[0],
                access.z_stride // unit * item,
                access.y_stride // unit * item,
                item,
            ),
        )

    def _collect(self, access: ScratchpadAccess | DramAccess, engine: Engine, needs: Clock) -> None:
        """Raise `needs` to the last conflicting task of each other engine."""
        reads, writes = self._regions(access)
        if reads is None or writes is None:
            return
        for other in Engine:
            if other is engine:
                continue
            needs[other] = max(needs[other], int(writes[other].max()))
            if access.write:
                frees = other is Engine.STORE and isinstance(access, ScratchpadAccess)
                event = STORE_READ if frees else int(other)
                needs[event] = max(needs[event], int(reads[other].max()))

    def _order(self, index: int, engine: Engine, needs: Clock) -> None:
        """Spend tokens until everything needed is known to have happened."""
        known = self._known[engine]
        while True:
            missing: dict[Engine, int] = {}
            for event, need in enumerate(needs):
                if need > known[event]:
                    source = Engine.STORE if event == STORE_READ else Engine(event)
                    missing[source] = max(missing.get(source, 0), need)
            if not missing:
                return
            source = min(missing, key=lambda s: self._left_over(s, engine, missing))
            self._spend(index, engine, source, missing[source])

    def _left_over(self, source: Engine, engine: Engine, missing: dict[Engine, int]) -> int:
        """How many other sources still miss a token once this one has given one."""
        begun = self._begun[source][missing[source] - 1]
        others = [s for s in missing if s not in (source, engine)]
        return sum(begun[s] < missing[s] for s in others)

    def _spend(self, index: int, engine: Engine, source: Engine, position: int) -> None:
        known = self._known[engine]
        pusher = self._index[source][position - 1]
        for event, seen in enumerate(self._begun[source][position - 1]):
            known[event] = max(known[event], seen)
        if source is Engine.STORE:
            known[STORE_READ] = max(known[STORE_READ], position)
        if source is not Engine.STORE or engine is Engine.LOAD:
            known[source] = max(known[source], position)
        self._tokens.pops.setdefault(index, set()).add(source)
        self._tokens.pushes.setdefault(pusher, set()).add(engine)

    def _with_tokens(self, index: int, task: Task) -> Task:
        engine = task.engine
        pops = self._tokens.pops.get(index, set())
        pushes = self._tokens.pushes.get(index, set())
        instruction: isa.Instruction = replace(
            task.instruction,
            pop_previous=int(engine.previous in pops),
            pop_next=int(engine.next in pops),
            push_previous=int(engine.previous in pushes),
            push_next=int(engine.next in pushes),
        )
        if isinstance(instruction, isa.Store) and instruction.push_previous:
            instruction = replace(instruction, early=1)
        return replace(task, instruction=instruction)
