"""From the kernels of a region to the task instructions of one invocation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.compiler.backends.accelerator.constants import ConstantPool
from tilewright.compiler.backends.accelerator.deadlock import check_deadlock
from tilewright.compiler.backends.accelerator.lower import lower_kernel
from tilewright.compiler.backends.accelerator.prefetch import hoist_constants
from tilewright.compiler.backends.accelerator.scratchpads import ScratchpadPlan
from tilewright.compiler.backends.accelerator.task import DramPlace, Task
from tilewright.compiler.backends.accelerator.tokens import add_tokens
from tilewright.compiler.backends.accelerator.uop_memory import UopMemory
from tilewright.compiler.ir.loops import Kernel
from tilewright.hw import isa
from tilewright.hw.config import Config
from tilewright.hw.isa import Segment

NO_LAYER = -1


@dataclass(frozen=True, slots=True)
class LayerKernel:
    """A kernel, the index of its layer, and the places of the values it reads and writes."""

    kernel: Kernel
    layer: int
    values: Mapping[str, DramPlace]


def generate(
    kernels: Sequence[LayerKernel],
    config: Config,
    constants: ConstantPool,
    segment_bytes: Mapping[Segment, int],
) -> list[Task]:
    """Return the tasks of one invocation, FINISH last; constants are added to the pool.

    `segment_bytes` sizes the segments that the machine writes.

    Raises:
        CompileError: a kernel that does not fit the machine.
    """
    scratchpads, uops = ScratchpadPlan(config), UopMemory(config, constants)
    tasks: list[Task] = []
    for item in kernels:
        kernel = item.kernel
        values = {**kernel.inputs, **kernel.outputs}
        places = {buffer: item.values[value] for buffer, value in values.items()}
        for buffer, data in kernel.constants.items():
            places[buffer] = DramPlace(Segment.CONSTANTS, constants.add(data))
        lowered = lower_kernel(kernel, config, places, scratchpads.place(kernel), item.layer)
        tasks += hoist_constants(uops.place(lowered))
    tasks = add_tokens(tasks, config, dict(segment_bytes))
    tasks.append(Task(isa.Finish(), (), NO_LAYER))
    check_deadlock([task.instruction for task in tasks], config)
    return tasks
