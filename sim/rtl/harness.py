"""The simulator library of a config behind Python calls: registers, DRAM, clock and events."""

import ctypes
import weakref
from collections.abc import Mapping
from enum import IntEnum
from fractions import Fraction
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tilewright.hw.errors import DeviceError, SimulationError
from tilewright.hw.isa import NUM_SEGMENTS, Engine, Segment
from tilewright.hw.registers import CONTROL_START, REGISTERS
from tilewright.runtime.device import Segments
from tilewright.sim.memory import MemoryModel

_FAILED = -1
_CONTROL = REGISTERS["control"].address
_WRITABLE = (Segment.WORKSPACE, Segment.OUTPUT)


class Outcome(IntEnum):
    """Why `Harness.run` came back."""

    RUNNING = 0
    INTERRUPT = 1
    STALLED = 2


class EventKind(IntEnum):
    """What an engine did with an instruction, in the order of instructions."""

    START = 0
    RETIRE = 1


class _Model(ctypes.Structure):
    """`MemoryModel` of memory_timing.h."""

    _fields_ = [
        (name, ctypes.c_int64)
        for name in (
            "latency",
            "write_latency",
            "beats_numerator",
            "beats_denominator",
            "outstanding",
            "refresh_period",
            "refresh_length",
            "jitter",
            "jitter_seed",
        )
    ]


class _Segment(ctypes.Structure):
    """`Segment` of harness.cpp."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("base", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("writable", ctypes.c_int64),
    ]


def model_structure(memory: MemoryModel) -> ctypes.Structure:
    """Return a memory model as the harness takes it."""
    beats = Fraction(memory.beats)
    return _Model(
        latency=memory.latency,
        write_latency=memory.write_latency,
        beats_numerator=beats.numerator,
        beats_denominator=beats.denominator,
        outstanding=memory.outstanding,
        refresh_period=memory.refresh_period,
        refresh_length=memory.refresh_length,
        jitter=memory.jitter,
        jitter_seed=memory.jitter_seed,
    )


def _open(path: Path) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise DeviceError(
            f"rtl engine: the simulator cannot be loaded ({error}); remove {path.parent}"
        ) from error
    handle, number, address = ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint64
    for name, result, arguments in (
        ("tw_new", handle, []),
        ("tw_delete", None, [handle]),
        ("tw_error", ctypes.c_char_p, [handle]),
        ("tw_open", number, [handle, ctypes.POINTER(_Model), address, ctypes.c_char_p]),
        ("tw_attach", None, [handle, ctypes.POINTER(_Segment)]),
        ("tw_write", number, [handle, address, ctypes.c_uint32, ctypes.c_int]),
        ("tw_read", number, [handle, address]),
        ("tw_run", number, [handle, number, number]),
        ("tw_cycle", number, [handle]),
        ("tw_num_events", number, [handle, ctypes.c_int, ctypes.c_int]),
        ("tw_events", ctypes.POINTER(ctypes.c_int64), [handle, ctypes.c_int, ctypes.c_int]),
        ("tw_flush", None, [handle]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class Harness:
    """One machine out of reset, with its memory; a `runtime.driver.Bus`.

    State that the hardware does not reset starts random from `seed`.  A call that raises leaves
    the machine in an unknown state.
    """

    def __init__(self, library: Path, memory: MemoryModel, *, seed: int, vcd: Path | None) -> None:
        """Load a library of `build`; one with waveforms needs `vcd`, the file to write.

        Raises:
            DeviceError: the waveform file cannot be written.
        """
        self._library = _open(library)
        self._handle = self._library.tw_new()
        self._close = weakref.finalize(self, self._library.tw_delete, self._handle)
        self._attached: list[NDArray[np.uint8]] = []
        path = str(vcd).encode() if vcd else None
        if self._library.tw_open(self._handle, model_structure(memory), seed, path) == _FAILED:
            raise DeviceError(f"rtl engine: {vcd}: {self._error()}; check the folder")

    def close(self) -> None:
        """Free the machine and complete the waveform file."""
        self._close()

    def attach(self, segments: Segments, bases: Mapping[Segment, int]) -> None:
        """Make buffers the contents of DRAM; WORKSPACE and OUTPUT are written in place."""
        table = (_Segment * NUM_SEGMENTS)()
        self._attached = []
        for segment, buffer in segments.items():
            flat = buffer.reshape(-1)
            writable = segment in _WRITABLE
            assert flat.dtype == np.uint8
            assert flat.flags.c_contiguous
            assert not flat.size or np.shares_memory(flat, buffer)
            self._attached.append(flat)
            table[segment] = _Segment(flat.ctypes.data, bases[segment], flat.size, writable)
        self._library.tw_attach(self._handle, table)

    def read(self, address: int) -> int:
        """Return a register.

        Raises:
            SimulationError: the machine broke a rule of the bus, or does not answer.
        """
        return self._checked(self._library.tw_read(self._handle, address))

    def write(self, address: int, value: int) -> None:
        """Write a register; errors as `read`.  The start bit restarts clock and memory."""
        restart = address == _CONTROL and bool(value & CONTROL_START)
        self._checked(self._library.tw_write(self._handle, address, value, restart))

    def run(self, cycles: int, *, patience: int) -> Outcome:
        """Run for `cycles`, until the interrupt, or until nothing happened for `patience` cycles.

        Errors as `read`.
        """
        return Outcome(self._checked(self._library.tw_run(self._handle, cycles, patience)))

    @property
    def cycle(self) -> int:
        """The memory's clock: cycles since the start bit was accepted."""
        return int(self._library.tw_cycle(self._handle))

    def num_events(self, kind: EventKind, engine: Engine) -> int:
        """How many instructions an engine has started or retired in this run."""
        return int(self._library.tw_num_events(self._handle, kind, engine))

    def events(self, kind: EventKind, engine: Engine) -> NDArray[np.int64]:
        """Return the cycle of each start or retirement of an engine in this run."""
        number = self.num_events(kind, engine)
        if not number:
            return np.zeros(0, np.int64)
        pointer = self._library.tw_events(self._handle, kind, engine)
        return np.ctypeslib.as_array(pointer, (number,)).copy()

    def flush(self) -> None:
        """Write out the waveforms recorded so far."""
        self._library.tw_flush(self._handle)

    def _checked(self, result: int) -> int:
        if result == _FAILED:
            raise SimulationError(f"rtl engine: {self._error()}")
        return result

    def _error(self) -> str:
        text: bytes = self._library.tw_error(self._handle)
        return text.decode()
