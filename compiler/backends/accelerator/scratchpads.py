"""Scratchpad allocation: a fixed place for every copy of every buffer of a kernel.

Accumulator copies of successive virtual threads go to different halves of the memory in turn,
and so to different banks: STORE drains one while GEMM fills the other.  Successive kernels take
successive places where they fit, so that one's loads need not wait for the other's end.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from tilewright.compiler.ir.loops import Allocate, Buffer, For, Kernel, Kind, Scope, Statement
from tilewright.hw.config import Config
from tilewright.hw.errors import CompileError


@dataclass(slots=True)
class ScratchpadPlan:
    """Places for a sequence of kernels; remembers where the last one ended."""

    config: Config
    _ends: dict[tuple[Scope, int], int] = field(default_factory=dict)

    def place(self, kernel: Kernel) -> dict[str, tuple[int, ...]]:
        """Return the first tile of each copy of each scratchpad buffer.

        Raises:
            CompileError: the buffers do not fit.
        """
        requests = _requests(kernel)
        arenas = self._arenas(requests)
        places: dict[str, list[tuple[int, int, int]]] = {b.name: [] for b, _ in requests}
        for (scope, number), (low, high) in arenas.items():
            wanted = [(b, n) for b, n in requests if b.scope is scope]
            sizes = [
                (b.name, turn, b.num_tiles)
                for b, n in wanted
                for turn in _copies(scope, number, n, arenas)
            ]
            total = sum(size for _, _, size in sizes)
            if total > high - low:
                raise CompileError(
                    f"lower: {kernel.name}: {scope.value} buffers need {total} tiles,"
                    f" there are {high - low}"
                )
            start = self._ends.get((scope, number), low)
            start = start if low <= start and start + total <= high else low
            for name, turn, size in sizes:
                places[name].append((turn, number, start))
                start += size
            self._ends[scope, number] = start
        return {
            name: tuple(start for _, _, start in sorted(copies)) for name, copies in places.items()
        }

    def _arenas(
        self, requests: list[tuple[Buffer, int]]
    ) -> dict[tuple[Scope, int], tuple[int, int]]:
        """Ranges of tiles by scope and number; accumulators are halved if anything has copies."""
        arenas = {}
        for scope in dict.fromkeys(buffer.scope for buffer, _ in requests):
            depth = self.config.depths()[scope.value]
            halved = scope is Scope.ACCUMULATOR and any(
                n > 1 for b, n in requests if b.scope is scope
            )
            if halved:
                arenas[scope, 0], arenas[scope, 1] = (0, depth // 2), (depth // 2, depth)
            else:
                arenas[scope, 0] = (0, depth)
        return arenas


def _copies(
    scope: Scope, number: int, copies: int, arenas: dict[tuple[Scope, int], tuple[int, int]]
) -> range:
    """The turns of a buffer in an arena: every second copy in each half, or all in the whole."""
    if (scope, 1) in arenas:
        return range((copies + 1 - number) // 2)
    return range(copies)


def _requests(kernel: Kernel) -> list[tuple[Buffer, int]]:
    """The kernel's buffers, each name once in its largest shape, and how many copies they need."""
    requests: dict[str, tuple[Buffer, int]] = {}
    for buffer, copies in _allocations(kernel.body, 1):
        largest, most = requests.get(buffer.name, (buffer, copies))
        largest = max(largest, buffer, key=lambda b: b.num_tiles)
        requests[buffer.name] = largest, max(most, copies)
    return list(requests.values())


def _allocations(body: tuple[Statement, ...], copies: int) -> Iterator[tuple[Buffer, int]]:
    for statement in body:
        match statement:
            case For(_, _, kind, inner, threads):
                threads = threads if kind is Kind.VIRTUAL_THREAD else 1
                yield from _allocations(inner, max(copies, threads))
            case Allocate(buffer):
                yield buffer, copies
            case _:
                pass
