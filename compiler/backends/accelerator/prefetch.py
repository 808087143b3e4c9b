"""Loads of constants moved ahead of the loads that wait for another layer's results.

The load engine works in order, and a layer's weights wait for nothing.  What its first GEMM
needs of them goes in front of its first activations, and arrives while the layer before
computes.  More would come at the expense of the activations that the first GEMMs need.
"""

from tilewright.compiler.backends.accelerator.task import DramAccess, Task
from tilewright.hw.isa import Engine, Segment


def hoist_constants(tasks: list[Task]) -> list[Task]:
    """Return a kernel's tasks, of those before the first arithmetic the loads of constants first.

    These loads fill buffers that live together, so their order is free.
    """
    computes = (i for i, task in enumerate(tasks) if task.engine is Engine.COMPUTE)
    start = next(computes, 0)
    if any(task.engine is not Engine.LOAD for task in tasks[:start]):
        return tasks
    return [*sorted(tasks[:start], key=lambda task: not _loads_constants(task)), *tasks[start:]]


def _loads_constants(task: Task) -> bool:
    return any(
        isinstance(access, DramAccess) and access.segment is Segment.CONSTANTS
        for access in task.accesses
    )
