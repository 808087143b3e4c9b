"""Places for uop lists in uop memory, and the LOADs that bring them.

A kernel's distinct lists are loaded together when they fit, in front of its tasks.  If they
do not, its tasks are cut into phases whose lists fill at most half of the memory, so that the
next phase's lists load while this one computes.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tilewright.compiler.backends.accelerator.constants import ConstantPool
from tilewright.compiler.backends.accelerator.task import DramAccess, ScratchpadAccess, Task
from tilewright.hw import isa
from tilewright.hw.config import UOP_BYTES, Config
from tilewright.hw.isa import Memory, Segment

Words = NDArray[np.uint64]


class UopMemory:
    """The state of uop memory along a program: where each list lies now."""

    def __init__(self, config: Config, constants: ConstantPool) -> None:
        self._depth = config.depths()["uop"]
        self._constants = constants
        self._head = 0
        self._resident: dict[bytes, int] = {}

    def place(self, tasks: list[Task]) -> list[Task]:
        """Return a kernel's tasks with their lists placed, and the LOADs they need."""
        limit = self._depth if self._total(tasks) <= self._depth else self._depth // 2
        placed: list[Task] = []
        phase: list[Task] = []
        lists: dict[bytes, Words] = {}
        size = 0
        for task in tasks:
            key = None if task.uops is None else task.uops.tobytes()
            if task.uops is not None and key is not None and key not in lists:
                if size + len(task.uops) > limit:
                    placed += self._phase(phase, lists)
                    phase, lists, size = [], {}, 0
                lists[key] = task.uops
                size += len(task.uops)
            phase.append(task)
        return placed + self._phase(phase, lists)

    def _total(self, tasks: list[Task]) -> int:
        lists = {task.uops.tobytes(): len(task.uops) for task in tasks if task.uops is not None}
        return sum(lists.values())

    def _phase(self, tasks: list[Task], lists: dict[bytes, Words]) -> list[Task]:
        loads = []
        if any(key not in self._resident for key in lists):
            loads.append(self._load(lists, tasks[0].layer))
        return loads + [self._with_place(task) for task in tasks]

    def _load(self, lists: dict[bytes, Words], layer: int) -> Task:
        words = np.concatenate(list(lists.values()))
        if self._head + len(words) > self._depth:
            self._head = 0
        first, end = self._head, self._head + len(words)
        self._resident = {
            key: start
            for key, start in self._resident.items()
            if start >= end or start + len(key) // UOP_BYTES <= first
        }
        offset = self._constants.add(words)
        for key, uops in lists.items():
            self._resident[key] = self._head
            self._head += len(uops)
        load = isa.Load(
            memory=Memory.UOP,
            segment=Segment.CONSTANTS,
            offset=offset,
            scratchpad=first,
            x=len(words),
        )
        read = DramAccess(Segment.CONSTANTS, offset, words.nbytes, 1, 0, 1, 0, write=False)
        written = ScratchpadAccess(Memory.UOP, first, len(words), write=True)
        return Task(load, (read, written), layer)

    def _with_place(self, task: Task) -> Task:
        if task.uops is None or not isinstance(task.instruction, isa.Gemm | isa.Alu):
            return task
        begin = self._resident[task.uops.tobytes()]
        read = ScratchpadAccess(Memory.UOP, begin, len(task.uops), write=False)
        instruction: isa.Gemm | isa.Alu = replace(task.instruction, uop_begin=begin)
        return replace(task, instruction=instruction, accesses=(*task.accesses, read))
