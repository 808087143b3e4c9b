"""Run a program's steps: host calls on NumPy arrays, packing, and the machine.

The executor knows no engine: it is handed a `Device`.  It keeps the DRAM segments between
requests, as a driver on a board would, so nothing may depend on what they hold at the start.
"""

import dataclasses
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.hw import isa
from tilewright.hw.encoding import decode_word, encode
from tilewright.hw.errors import CompileError, ModelError
from tilewright.hw.isa import Segment
from tilewright.runtime.device import Device, RunResult
from tilewright.runtime.host import KERNELS
from tilewright.runtime.program import HostCall, Invoke, Pack, Placement, Program, Unpack
from tilewright.runtime.tensor import Array, TensorType

STALE = 0xA5
"""What memory holds before anything is written: a visible value, and the same in every run."""


@dataclass(frozen=True, slots=True)
class HostRecord:
    """One thing done outside the machine, and what it cost."""

    name: str
    op: str
    reason: str
    layer: int | None
    bytes_in: int
    bytes_out: int
    microseconds: float


@dataclass(frozen=True, slots=True)
class Invocation:
    """One run of the machine: instructions [first, first + count) of the program's code."""

    name: str
    first: int
    count: int
    result: RunResult


@dataclass(frozen=True, slots=True)
class Execution:
    """The outcome of one request.

    `tensors` holds every tensor of the program when it was asked for, else it is empty.
    """

    outputs: Mapping[str, Array]
    tensors: Mapping[str, Array]
    invocations: tuple[Invocation, ...]
    host: tuple[HostRecord, ...]


class Executor:
    """A program loaded on a device; `run` serves requests one after another."""

    def __init__(self, program: Program, device: Device, *, all_tensors: bool = False) -> None:
        """Lay out the segments; with `all_tensors`, give every tensor a place of its own.

        `device` is a machine of the program's config.
        """
        self._program = program
        self._device = device
        self._all_tensors = all_tensors
        self._index = {tensor.name: tensor for tensor in program.tensors}
        self._code = _relocate(program) if all_tensors else program.code
        sizes = dict(program.segment_bytes)
        if all_tensors:
            sizes[Segment.WORKSPACE] = program.distinct_workspace_bytes
        self._segments = {
            segment: np.full(sizes.get(segment, 0), STALE, np.uint8) for segment in Segment
        }
        self._segments[Segment.CONSTANTS] = program.constants

    def run(
        self, feeds: Mapping[str, Array], *, progress: Callable[[int], None] | None = None
    ) -> Execution:
        """Serve one request; `feeds` must match `check_feeds`.

        `progress` is called with the number of steps done, after each.

        Raises:
            ModelError: feeds of another name, shape or element type.
            SimulationError: the program broke a rule of the machine.
        """
        check_feeds(self._program, feeds)
        values: dict[str, Array] = {**self._program.host_constants, **feeds}
        host: list[HostRecord] = []
        invocations: list[Invocation] = []
        for number, step in enumerate(self._program.steps, 1):
            match step:
                case Pack(tensor):
                    host.append(self._pack(tensor, values[tensor]))
                case Unpack(tensor):
                    record, values[tensor] = self._unpack(tensor)
                    host.append(record)
                case HostCall():
                    host.append(self._call(step, values))
                case Invoke(name, first, count):
                    segments = {**self._segments}
                    segments[Segment.CODE] = self._code[first : first + count].reshape(-1)
                    result = self._device.run(segments)
                    invocations.append(Invocation(name, first, count, result))
            if progress:
                progress(number)
        return Execution(
            outputs={name: values[name] for name in self._program.outputs},
            tensors=self._tensors(values) if self._all_tensors else {},
            invocations=tuple(invocations),
            host=tuple(host),
        )

    def _bytes_of(self, place: Placement) -> NDArray[np.uint8]:
        offset = place.distinct_offset if self._all_tensors else place.offset
        return self._segments[place.segment][offset : offset + place.packing.num_bytes]

    def _placement(self, tensor: str) -> Placement:
        place = self._index[tensor].placement
        if place is None:
            raise CompileError(f"program {self._program.name}: {tensor} has no place in DRAM")
        return place

    def _pack(self, tensor: str, value: Array) -> HostRecord:
        place = self._placement(tensor)
        start = time.perf_counter()
        self._bytes_of(place)[:] = place.packing.pack(value)
        return HostRecord(
            name=tensor,
            op="Pack",
            reason="puts a tensor into the machine's layout",
            layer=None,
            bytes_in=value.nbytes,
            bytes_out=place.packing.num_bytes,
            microseconds=_microseconds_since(start),
        )

    def _unpack(self, tensor: str) -> tuple[HostRecord, Array]:
        place = self._placement(tensor)
        start = time.perf_counter()
        value = _unpacked(self._index[tensor].type, place, self._bytes_of(place))
        return HostRecord(
            name=tensor,
            op="Unpack",
            reason="gets a tensor from the machine's layout",
            layer=None,
            bytes_in=place.packing.num_bytes,
            bytes_out=value.nbytes,
            microseconds=_microseconds_since(start),
        ), value

    def _call(self, step: HostCall, values: dict[str, Array]) -> HostRecord:
        layer = self._program.layers[step.layer]
        if step.op not in KERNELS:
            raise ModelError(f"{layer.name}: {step.op} has no host kernel in this tilewright")
        inputs = [values[name] if name else None for name in step.inputs]
        types = [self._index[name].type if name else None for name in step.inputs]
        output_types = [self._index[name].type for name in step.outputs]
        start = time.perf_counter()
        try:
            outputs = KERNELS[step.op](inputs, step.attributes, types, output_types)
        except ModelError as error:
            raise ModelError(f"{layer.name}: {step.op}: {error}") from error
        elapsed = _microseconds_since(start)
        values.update(zip(step.outputs, outputs, strict=True))
        return HostRecord(
            name=layer.name,
            op=step.op,
            reason=layer.reason,
            layer=step.layer,
            bytes_in=sum(x.nbytes for x in inputs if x is not None),
            bytes_out=sum(y.nbytes for y in outputs),
            microseconds=elapsed,
        )

    def _tensors(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """Return every tensor that is not a constant, from the host or from its own place."""
        found = {}
        for tensor in self._program.tensors:
            if tensor.placement is not None and tensor.name not in values:
                place = tensor.placement
                found[tensor.name] = _unpacked(tensor.type, place, self._bytes_of(place))
            elif tensor.name in values and tensor.name not in self._program.host_constants:
                found[tensor.name] = values[tensor.name]
        return found


def check_feeds(program: Program, feeds: Mapping[str, Array]) -> None:
    """Check that feeds are exactly the program's inputs, by name, element type and shape.

    Raises:
        ModelError: the first input that is missing, unknown or of another type.
    """
    types = {name: program.tensor(name).type for name in program.inputs}
    for name in feeds:
        if name not in types:
            raise ModelError(f"input {name!r}: no such input; the model's are {_listing(types)}")
    for name, kind in types.items():
        if name not in feeds:
            raise ModelError(f"input {name!r}: missing; give {kind.dtype}{list(kind.shape)}")
        value = feeds[name]
        if str(value.dtype) != kind.dtype:
            raise ModelError(
                f"input {name!r}: element type {value.dtype}, but the model takes {kind.dtype};"
                f" convert it with .astype({kind.dtype!r})"
            )
        if value.shape != kind.static_shape:
            raise ModelError(
                f"input {name!r}: shape {list(value.shape)}, but the program takes"
                f" {list(kind.static_shape)}; give one inference of that shape"
            )


def _listing(types: Mapping[str, TensorType]) -> str:
    return ", ".join(f"{name} ({kind.dtype}{list(kind.shape)})" for name, kind in types.items())


def _unpacked(kind: TensorType, place: Placement, data: NDArray[np.uint8]) -> Array:
    """Return a tensor's value in memory of its own: the next request reuses the segments."""
    value = place.packing.unpack(data.copy()).reshape(kind.static_shape)
    return value if value.dtype == kind.dtype else value.view(kind.dtype)


def _microseconds_since(start: float) -> float:
    return (time.perf_counter() - start) * 1e6


def _relocate(program: Program) -> NDArray[np.uint8]:
    """Return the code with every tensor access moved to the distinct plan."""
    code = program.code.copy()
    for index, tensor_index in enumerate(program.tensor_of):
        place = program.tensors[tensor_index].placement if tensor_index >= 0 else None
        if place is None or place.offset == place.distinct_offset:
            continue
        task = decode_word(int.from_bytes(code[index].tobytes(), "little"))
        if not isinstance(task, isa.Load | isa.Store):
            raise CompileError(f"program {program.name}: instruction {index} accesses no tensor")
        offset = task.offset + place.distinct_offset - place.offset
        moved: isa.Load | isa.Store = dataclasses.replace(task, offset=offset % (1 << 32))
        code[index] = encode([moved])[0]
    return code
