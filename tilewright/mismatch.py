"""Where a wrong value came from: tile, instruction and cycle of one element of a tensor."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.check import CheckResult
from tilewright.hw.encoding import decode, disassemble
from tilewright.hw.isa import Store
from tilewright.runtime.executor import Execution
from tilewright.runtime.packing import Packing
from tilewright.runtime.program import HostCall, Program


@dataclass(frozen=True, slots=True)
class Origin:
    """The STORE that wrote an element: `cycle` is its retirement, None without time."""

    tensor: str
    tile: int
    index: int
    instruction: str
    cycle: int | None

    def __str__(self) -> str:
        """Return e.g. `tile 3 of q, instruction 12 (store ...), cycle 4711`."""
        text = f"tile {self.tile} of {self.tensor}, instruction {self.index} ({self.instruction})"
        return text if self.cycle is None else f"{text}, cycle {self.cycle}"


def find_origin(
    program: Program, execution: Execution, tensor: str, index: tuple[int, ...]
) -> Origin | None:
    """Return the STORE behind an element, through host steps that keep its position.

    None when the host made the element from more than one.
    """
    made = {
        output: step
        for step in program.steps
        if isinstance(step, HostCall)
        for output in step.outputs
    }
    shapes = {each.name: each.type.static_shape for each in program.tensors}
    while tensor in made:
        source = made[tensor].inputs[0]
        if shapes.get(source) != shapes[tensor]:
            return None
        tensor = source
    place = program.tensor(tensor).placement
    if place is None or place.packing.fold is not None:
        return None
    offset = element_offset(place.packing, shapes[tensor], index)
    tile = offset // (program.config.batch * program.config.block_out)
    address = place.offset + offset * np.dtype(place.packing.dtype).itemsize
    return _store_of(program, execution, tensor, tile, address)


def element_offset(packing: Packing, shape: tuple[int, ...], index: tuple[int, ...]) -> int:
    """Return the position, in elements, of x[index] in the packed tensor."""
    flat = np.ravel_multi_index(index, shape)
    if packing.factors:
        parts = np.unravel_index(flat, packing.factors)
        ordered = [packing.factors[i] for i in packing.order]
        flat = np.ravel_multi_index([int(parts[i]) for i in packing.order], ordered)
    n, c, h, w = (int(i) for i in np.unravel_index(flat, packing.shape))
    lane = c % packing.lanes
    place = (
        n // packing.batch,
        c // packing.lanes,
        h,
        w,
        lane // packing.sub_lanes,
        n % packing.batch,
        lane % packing.sub_lanes,
    )
    return int(np.ravel_multi_index(place, packing.blocks))


def _store_of(
    program: Program, execution: Execution, tensor: str, tile: int, address: int
) -> Origin | None:
    number = next(i for i, each in enumerate(program.tensors) if each.name == tensor)
    code = decode(program.code)
    for index in np.flatnonzero(program.tensor_of == number)[::-1].tolist():
        task = code[index]
        if isinstance(task, Store) and _covers(program, task, address):
            cycle = _retirement(execution, index)
            return Origin(tensor, tile, index, disassemble(task), cycle)
    return None


def _covers(program: Program, task: Store, address: int) -> bool:
    config = program.config
    size = config.accumulator_tile_bytes if task.raw else config.output_tile_bytes
    z, y = np.meshgrid(np.arange(task.z), np.arange(task.y), indexing="ij")
    starts = (task.offset + z * task.z_stride + y * task.y_stride) % (1 << 32)
    return bool(((starts <= address) & (address < starts + task.x * size)).any())


def _retirement(execution: Execution, index: int) -> int | None:
    for invocation in execution.invocations:
        spans = invocation.result.spans
        if spans is not None and invocation.first <= index < invocation.first + invocation.count:
            return int(spans[index - invocation.first, 1])
    return None


def mismatch_lines(
    program: Program, executions: Sequence[Execution], result: CheckResult
) -> list[str]:
    """Return a line a reference that found a difference: the first one, and where it came from."""
    lines = []
    for reference, first in (
        ("exact", result.exact.first),
        ("onnxruntime", result.onnxruntime.first if result.onnxruntime.failed else None),
    ):
        if first is None:
            continue
        origin = find_origin(program, executions[first.sample], first.tensor, first.index)
        lines.append(f"mismatch with {reference}: {first}" + (f"; {origin}" if origin else ""))
    return lines
