"""The register protocol of the machine, written once: sequences of accesses that need no bus.

A sequence is a generator that yields `Read` and `Write` and is sent what was read.  `perform`
runs one on a bus that answers at once; a bench or a remote device drives it in its own way.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

from tilewright.hw import isa, registers
from tilewright.hw.config import Config
from tilewright.hw.errors import DeviceError
from tilewright.hw.isa import SEGMENT_ALIGNMENT, Segment
from tilewright.hw.registers import CAUSES, ENGINES, REGISTERS, ErrorCause
from tilewright.runtime.device import Counters

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Read:
    """Read the 32-bit register at a byte address."""

    address: int


@dataclass(frozen=True, slots=True)
class Write:
    """Write the 32-bit register at a byte address."""

    address: int
    value: int


Accesses = Generator[Read | Write, int, T]
"""Yields accesses; is sent the value of each read, and anything for a write; returns a T."""


class Bus(Protocol):
    """Register access to one machine."""

    def read(self, address: int) -> int:
        """Return the 32-bit register at a byte address."""
        ...

    def write(self, address: int, value: int) -> None:
        """Write the 32-bit register at a byte address."""
        ...


@dataclass(frozen=True, slots=True)
class Status:
    """The status register."""

    done: bool
    error: bool
    busy: bool


@dataclass(frozen=True, slots=True)
class Fault:
    """Why the machine stopped: `engine` is one of `registers.ENGINES`, `index` as its register."""

    cause: ErrorCause
    engine: str
    index: int


def perform(accesses: Accesses[T], bus: Bus) -> T:
    """Run a sequence on a bus and return its result."""
    try:
        access = next(accesses)
        while True:
            access = accesses.send(_access(access, bus))
    except StopIteration as stop:
        result: T = stop.value
        return result


def _access(access: Read | Write, bus: Bus) -> int:
    match access:
        case Read():
            return bus.read(access.address)
        case Write():
            bus.write(access.address, access.value)
            return 0


def read_register(name: str) -> Accesses[int]:
    """Return a register's value; a 64-bit one is read low word first."""
    register = REGISTERS[name]
    value = 0
    for word in range(register.words):
        value |= (yield Read(register.address + 4 * word)) << 32 * word
    return value


def write_register(name: str, value: int) -> Accesses[None]:
    """Write a register; a 64-bit one low word first."""
    register = REGISTERS[name]
    for word in range(register.words):
        yield Write(register.address + 4 * word, value >> 32 * word & 0xFFFFFFFF)


def identify(config: Config) -> Accesses[None]:
    """Check that the bus leads to a machine of this config.

    Raises:
        DeviceError: another kind of device, ISA version or config.
    """
    for name, expected in (
        ("id", registers.ID_VALUE),
        ("version", isa.VERSION),
        ("config_hash", config.config_hash),
    ):
        value = yield from read_register(name)
        if value != expected:
            raise DeviceError(
                f"device: register {name} reads 0x{value:x}, not 0x{expected:x};"
                f" it is not a machine of config {config.name}"
            )


def start(
    bases: Mapping[Segment, int], sizes: Mapping[Segment, int], num_instructions: int
) -> Accesses[None]:
    """Point the machine at its segments and start it; the last access sets the start bit.

    Raises:
        DeviceError: a base that is not a multiple of 4 KiB.
    """
    for segment in Segment:
        base = bases.get(segment, 0)
        if base % SEGMENT_ALIGNMENT:
            raise DeviceError(
                f"device: segment {segment.name} at 0x{base:x} is not aligned to"
                f" {SEGMENT_ALIGNMENT} bytes"
            )
        yield from write_register(f"base_{segment.name.lower()}", base)
        yield from write_register(f"size_{segment.name.lower()}", sizes.get(segment, 0))
    yield from write_register("num_instructions", num_instructions)
    yield from write_register("status", registers.STATUS_DONE | registers.STATUS_ERROR)
    yield from write_register("control", registers.CONTROL_START)


def read_status() -> Accesses[Status]:
    """Return the status bits."""
    value = yield from read_register("status")
    return Status(
        done=bool(value & registers.STATUS_DONE),
        error=bool(value & registers.STATUS_ERROR),
        busy=bool(value & registers.STATUS_BUSY),
    )


def read_fault() -> Accesses[Fault]:
    """Return why the machine stopped with its error bit set."""
    value = yield from read_register("error")
    index = yield from read_register("error_index")
    return Fault(ErrorCause(value & 0xFF), ENGINES[value >> 8 & 0xFF], index)


def read_counters() -> Accesses[Counters]:
    """Return what the machine counted in its last run."""
    totals = {}
    for name in ("cycles", "bytes_read", "bytes_written", "instructions"):
        totals[name] = yield from read_register(name)
    engines = {}
    for engine in ENGINES:
        causes = {}
        for cause in CAUSES:
            causes[cause] = yield from read_register(f"{engine}_{cause}")
        engines[engine] = causes
    return Counters(**totals, engines=engines)
