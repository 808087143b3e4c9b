"""The model of DRAM behind the AXI port: one definition for every engine that counts cycles.

The Verilator harness (`sim/rtl/memory_timing.h`), the co-simulation bench and the timing engine
implement exactly what follows; `MemoryTiming` is the readable reference.

- The memory's clock is 0 in the first cycle after the edge at which the machine accepts the
  start bit: the one in which that register write is answered, a fixed time before cycle 0 of
  the machine (docs/timing.md).  Credits, burst indices and so jitter start anew there.
- Each direction accepts a burst in a cycle when fewer than `outstanding` of its bursts are in
  flight at the start of the cycle.  A burst is in flight from the cycle after its address was
  accepted to the cycle of its last read beat or of its write response.
- Read burst i, accepted in cycle t, may offer beats from cycle t + latency + jitter(READ, i) on.
  Bursts answer in the order of acceptance, never interleaved.
- The data of a write burst are accepted from the cycle after its address on, bursts in order.
- Write burst i, whose last beat was accepted in cycle t, is answered from cycle
  t + write_latency + jitter(WRITE, i) on: one response a cycle, in order.
- A direction moves at most one beat a cycle, and `beats` a cycle on average: with beats = p / q
  it holds a credit of at most p + q − 1, which is what it starts with.  Every cycle adds p, up to
  that most; a beat needs q and takes q.
- A cycle c is a refresh when refresh_period > 0 and c mod refresh_period is at least
  refresh_period − refresh_length: no beat moves in either direction (addresses and responses
  do), and credits grow all the same.
- A read beat takes its credit when it is first offered, and then stays offered until taken, as
  AXI demands.  (The machine always takes it at once.)
- jitter(direction, i) is `jitter_hash(jitter_seed, direction, i)` modulo jitter + 1.
"""

import dataclasses
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from typing import Any, Self

from tilewright.hw.errors import ConfigError

MAX_CYCLES = 1 << 20
MAX_OUTSTANDING = 1 << 10
MAX_BEATS_DENOMINATOR = 1 << 16
MAX_SEED = 1 << 63
_MASK = (1 << 64) - 1
_EXAMPLE = "latency=20,write_latency=20,beats=1,outstanding=8,refresh=PERIOD:LENGTH,jitter=MAX:SEED"


class Direction(IntEnum):
    """Reads and writes are independent, except that both stop during a refresh."""

    READ = 0
    WRITE = 1


def jitter_hash(seed: int, direction: Direction, burst: int) -> int:
    """Return 64 uniform bits for a burst: three xor-shift-multiply rounds (as in splitmix64)."""
    x = (seed + 0x9E3779B97F4A7C15 * (2 * burst + direction + 1)) & _MASK
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB & _MASK
    return x ^ (x >> 31)


@dataclass(frozen=True, slots=True)
class MemoryModel:
    """How the memory behind the AXI port answers; exact meaning in the module's docstring.

    Latencies, refresh and jitter are cycles; `beats` is beats a cycle in each direction, at
    most 1 and exact (`Fraction(1, 2)` for every other cycle).

    Raises:
        ConfigError: a value outside its range.
    """

    latency: int = 20
    write_latency: int = 20
    beats: Fraction | int = 1
    outstanding: int = 8
    refresh_period: int = 0
    refresh_length: int = 0
    jitter: int = 0
    jitter_seed: int = 0

    def __post_init__(self) -> None:
        """Check every value."""
        _check("latency", self.latency, 1, MAX_CYCLES)
        _check("write_latency", self.write_latency, 1, MAX_CYCLES)
        _check("outstanding", self.outstanding, 1, MAX_OUTSTANDING)
        _check("refresh period", self.refresh_period, 0, MAX_CYCLES)
        _check("jitter", self.jitter, 0, MAX_CYCLES)
        _check("jitter seed", self.jitter_seed, 0, MAX_SEED - 1)
        if not 0 < self.beats <= 1 or Fraction(self.beats).denominator > MAX_BEATS_DENOMINATOR:
            raise ConfigError(
                f"memory: beats={self.beats} is not legal; choose 1 or a fraction below it with a"
                f" denominator of at most {MAX_BEATS_DENOMINATOR}, e.g. 1/2"
            )
        if not 0 <= self.refresh_length < max(1, self.refresh_period):
            raise ConfigError(
                f"memory: refresh={self.refresh_period}:{self.refresh_length} is not legal;"
                " the length must be less than the period"
            )

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what `--memory` takes; keys left out keep their defaults.

        Raises:
            ConfigError: an unknown or repeated key, or a value that is malformed or out of range.
        """
        values: dict[str, Any] = {}
        for part in filter(None, text.split(",")):
            key, equals, value = (piece.strip() for piece in part.partition("="))
            read = _READERS.get(key)
            if read is None or not equals:
                raise ConfigError(f"memory {text!r}: {part!r} is not known; write {_EXAMPLE}")
            if key in values:
                raise ConfigError(f"memory {text!r}: {key} is given twice; give it once")
            try:
                values |= read(value)
            except ValueError:
                raise ConfigError(
                    f"memory {text!r}: {key}={value} is malformed; write {_EXAMPLE}"
                ) from None
        return cls(**values)

    def to_text(self) -> str:
        """Return the text that `parse` reads back equal."""
        parts = [
            f"latency={self.latency}",
            f"write_latency={self.write_latency}",
            f"beats={self.beats}",
            f"outstanding={self.outstanding}",
        ]
        if self.refresh_period:
            parts.append(f"refresh={self.refresh_period}:{self.refresh_length}")
        if self.jitter:
            parts.append(f"jitter={self.jitter}:{self.jitter_seed}")
        return ",".join(parts)

    def __str__(self) -> str:
        return self.to_text()

    def to_dict(self) -> dict[str, int | str]:
        """Return the fields as JSON values; `beats` as text when it is a fraction."""
        fields = dataclasses.asdict(self)
        return {
            key: value if isinstance(value, int) else str(value) for key, value in fields.items()
        }

    def refreshes(self, cycle: int) -> bool:
        """Whether the memory refreshes in a cycle of its clock."""
        period = self.refresh_period
        return period > 0 and cycle % period >= period - self.refresh_length

    def jitter_of(self, direction: Direction, burst: int) -> int:
        """Cycles that the burst-th burst of a direction waits beyond the latency."""
        return jitter_hash(self.jitter_seed, direction, burst) % (self.jitter + 1)

    @property
    def longest_silence(self) -> int:
        """A bound on the cycles in which requests are in flight and no beat or response moves."""
        beat = -(-Fraction(self.beats).denominator // Fraction(self.beats).numerator)
        return max(self.latency, self.write_latency) + self.jitter + self.refresh_length + beat + 1


def _check(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ConfigError(f"memory: {name}={value} is not legal; choose {low} to {high}")


def _whole(key: str) -> Callable[[str], dict[str, int]]:
    return lambda text: {key: int(text)}


def _beats(text: str) -> dict[str, Fraction | int]:
    top, slash, bottom = text.partition("/")
    if not slash:
        return {"beats": int(top)}
    if int(bottom) < 1:
        raise ValueError
    return {"beats": Fraction(int(top), int(bottom))}


def _refresh(text: str) -> dict[str, int]:
    period, length = text.split(":")
    return {"refresh_period": int(period), "refresh_length": int(length)}


def _jitter(text: str) -> dict[str, int]:
    most, _, seed = text.partition(":")
    return {"jitter": int(most), "jitter_seed": int(seed or 0)}


_READERS: dict[str, Callable[[str], dict[str, Any]]] = {
    "latency": _whole("latency"),
    "write_latency": _whole("write_latency"),
    "beats": _beats,
    "outstanding": _whole("outstanding"),
    "refresh": _refresh,
    "jitter": _jitter,
}


@dataclass(frozen=True, slots=True)
class MemoryOutputs:
    """What the memory drives in a cycle."""

    ar_ready: bool
    r_valid: bool
    r_last: bool
    aw_ready: bool
    w_ready: bool
    b_valid: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryInputs:
    """What a master drives in a cycle: the beats of an address offered (0: none), and flags."""

    ar_beats: int = 0
    aw_beats: int = 0
    w_valid: bool = False
    r_ready: bool = True
    b_ready: bool = True


class MemoryTiming:
    """Reference of the model, one cycle a call: read `outputs`, then `step`."""

    def __init__(self, model: MemoryModel) -> None:
        self._model = model
        beats = Fraction(model.beats)
        self._gain, self._cost = beats.numerator, beats.denominator
        self._most_credit = self._gain + self._cost - 1
        self._cycle = 0
        self._credit = [self._most_credit, self._most_credit]
        self._num_reads = 0
        self._num_answers = 0
        self._offered = False
        self._reads: deque[tuple[int, int]] = deque()
        """(first cycle, beats left) of each read burst."""
        self._writes: deque[int] = deque()
        """Beats still to come of each write burst."""
        self._responses: deque[int] = deque()
        """First cycle of each write response."""

    @property
    def outputs(self) -> MemoryOutputs:
        """What the memory drives in the present cycle; it does not depend on `MemoryInputs`."""
        most = self._model.outstanding
        refresh = self._model.refreshes(self._cycle)
        reads_move = not refresh and self._credit[Direction.READ] >= self._cost
        writes_move = not refresh and self._credit[Direction.WRITE] >= self._cost
        r_valid = self._offered or (
            bool(self._reads) and self._reads[0][0] <= self._cycle and reads_move
        )
        return MemoryOutputs(
            ar_ready=len(self._reads) < most,
            r_valid=r_valid,
            r_last=r_valid and self._reads[0][1] == 1,
            aw_ready=len(self._writes) + len(self._responses) < most,
            w_ready=bool(self._writes) and writes_move,
            b_valid=bool(self._responses) and self._responses[0] <= self._cycle,
        )

    def step(self, inputs: MemoryInputs) -> None:
        """End the cycle: take what was valid and ready on both sides."""
        model, outputs, cycle = self._model, self.outputs, self._cycle
        if outputs.r_valid and not self._offered:
            self._credit[Direction.READ] -= self._cost
        self._offered = outputs.r_valid and not inputs.r_ready
        if outputs.r_valid and inputs.r_ready:
            first, left = self._reads.popleft()
            if left > 1:
                self._reads.appendleft((first, left - 1))
        if outputs.b_valid and inputs.b_ready:
            self._responses.popleft()
        if outputs.w_ready and inputs.w_valid:
            self._credit[Direction.WRITE] -= self._cost
            self._writes[0] -= 1
            if self._writes[0] == 0:
                self._writes.popleft()
                jitter = model.jitter_of(Direction.WRITE, self._num_answers)
                self._responses.append(cycle + model.write_latency + jitter)
                self._num_answers += 1
        if outputs.ar_ready and inputs.ar_beats:
            jitter = model.jitter_of(Direction.READ, self._num_reads)
            self._reads.append((cycle + model.latency + jitter, inputs.ar_beats))
            self._num_reads += 1
        if outputs.aw_ready and inputs.aw_beats:
            self._writes.append(inputs.aw_beats)
        self._credit = [min(credit + self._gain, self._most_credit) for credit in self._credit]
        self._cycle += 1
