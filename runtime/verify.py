"""Whether the parts of a program fit together: what a file may have lost or gained."""

import math
from collections.abc import Mapping

import numpy as np

from tilewright.hw import isa
from tilewright.hw.config import Config
from tilewright.hw.isa import Segment
from tilewright.runtime.packing import Packing
from tilewright.runtime.program import HostCall, Invoke, Pack, Program, Tensor, Unpack
from tilewright.runtime.tensor import TensorType

MAX_SEGMENT_BYTES = 1 << 32
"""Offsets are 32 bits."""

_DTYPES = {np.dtype(code).name for code in "?bBhHiIqQefd"}


def verify(program: Program) -> None:
    """Check that the parts of a program fit together.

    Raises:
        ValueError: the first that does not.
    """
    size = len(program.code)
    for name, dtype, shape in (
        ("code", np.uint8, (size, isa.INSTRUCTION_BYTES)),
        ("layer_of", np.int32, (size,)),
        ("tensor_of", np.int32, (size,)),
        ("constants", np.uint8, (program.constants.size,)),
    ):
        array = getattr(program, name)
        if array.dtype != dtype or array.shape != shape:
            raise ValueError(f"{name} is {array.dtype}{list(array.shape)}")
    for name, owners in (("layer_of", program.layers), ("tensor_of", program.tensors)):
        indices = getattr(program, name)
        if size and not -1 <= indices.min() <= indices.max() < len(owners):
            raise ValueError(f"{name} is out of range")
    tensors = {tensor.name: tensor for tensor in program.tensors}
    if len(tensors) != len(program.tensors):
        raise ValueError("two tensors have one name")
    _verify_places(program)
    _verify_steps(program, tensors)


def _verify_places(program: Program) -> None:
    """Check tensors, and that the segments are as large as what lies in them."""
    ends = dict.fromkeys(Segment, 0)
    distinct_end = 0
    for tensor in program.tensors:
        _verify_type(tensor.name, tensor.type)
        place = tensor.placement
        if place is None:
            continue
        _verify_packing(tensor, place.packing, program.config)
        for offset in (place.offset, place.distinct_offset):
            if offset < 0 or offset % isa.SEGMENT_ALIGNMENT:
                raise ValueError(f"tensor {tensor.name} lies at {offset}")
        pages = -(-place.packing.num_bytes // isa.SEGMENT_ALIGNMENT) * isa.SEGMENT_ALIGNMENT
        ends[place.segment] = max(ends[place.segment], place.offset + pages)
        if place.segment is Segment.WORKSPACE:
            distinct_end = max(distinct_end, place.distinct_offset + pages)
        elif place.distinct_offset != place.offset:
            raise ValueError(f"tensor {tensor.name} has two places")
    ends[Segment.CODE], ends[Segment.CONSTANTS] = program.code.size, program.constants.size
    if dict(program.segment_bytes) != ends or program.distinct_workspace_bytes != distinct_end:
        raise ValueError("segment sizes are not those of what lies in them")
    if max(*ends.values(), distinct_end) > MAX_SEGMENT_BYTES:
        raise ValueError(f"a segment is larger than {MAX_SEGMENT_BYTES} bytes")


def _verify_type(name: str, kind: TensorType) -> None:
    if kind.dtype not in _DTYPES:
        raise ValueError(f"tensor {name} is of {kind.dtype!r}")
    if any(isinstance(dim, str) or not 0 <= dim <= MAX_SEGMENT_BYTES for dim in kind.shape):
        raise ValueError(f"tensor {name} has shape {list(kind.shape)}")


def _verify_packing(tensor: Tensor, packing: Packing, config: Config) -> None:
    cut = (packing.batch, packing.lanes, packing.sub_lanes)
    if cut != (config.batch, config.channel_lanes, config.sub_lanes):
        raise ValueError(f"tensor {tensor.name} is cut for another config")
    ordered = list(range(len(packing.factors)))
    if packing.dtype != tensor.type.dtype or sorted(packing.order) != ordered:
        raise ValueError(f"tensor {tensor.name} is packed as another")
    fold = packing.fold
    sizes = [*packing.shape, *packing.factors]
    if fold is not None:
        if min(fold.rows, fold.columns, fold.step, fold.width) < 1 or min(fold.top, fold.left) < 0:
            raise ValueError(f"tensor {tensor.name} is folded over nothing")
        sizes += [fold.rows, fold.columns, fold.step, fold.width, fold.top, fold.left]
    elements = {math.prod(packing.shape), math.prod(tensor.type.static_shape)}
    elements |= {math.prod(packing.factors)} if packing.factors else set()
    if len(elements) != 1 or not all(0 <= size <= MAX_SEGMENT_BYTES for size in sizes):
        raise ValueError(f"tensor {tensor.name} is packed from another shape")
    limits = np.iinfo(packing.dtype) if np.dtype(packing.dtype).kind in "iu" else None
    for fill in (packing.fill, fold.fill if fold else packing.fill):
        if limits is not None and not limits.min <= fill <= limits.max:
            raise ValueError(f"tensor {tensor.name} is filled with {fill}")


def _verify_steps(program: Program, tensors: Mapping[str, Tensor]) -> None:
    """Check that every step has what it reads, and that the outputs are made."""
    have = {*program.inputs, *program.host_constants}
    for name in (*have, *program.outputs):
        if name not in tensors:
            raise ValueError(f"there is no tensor {name!r}")
    for step in program.steps:
        needed: tuple[str, ...] = ()
        made: tuple[str, ...] = ()
        match step:
            case Pack(tensor):
                needed = (tensor,)
            case Unpack(tensor):
                made = (tensor,)
            case HostCall():
                needed, made = tuple(name for name in step.inputs if name), step.outputs
                if not 0 <= step.layer < len(program.layers):
                    raise ValueError(f"a step is for layer {step.layer}")
            case Invoke(name, first, count):
                if count < 1 or not 0 <= first <= first + count <= len(program.code):
                    raise ValueError(f"step {name} runs instructions that are not there")
        for name in (*needed, *made):
            if name not in tensors:
                raise ValueError(f"there is no tensor {name!r}")
        if isinstance(step, Pack | Unpack) and tensors[step.tensor].placement is None:
            raise ValueError(f"tensor {step.tensor!r} has no place in memory")
        if not have.issuperset(needed):
            raise ValueError(f"a step reads {min({*needed} - have)!r} before it is made")
        have.update(made)
    if not have.issuperset(program.outputs):
        raise ValueError("an output is not made")
