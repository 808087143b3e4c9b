"""Scratchpad allocation: a fixed place for every copy of every buffer of a kernel.

Accumulator copies of different virtual threads go to different halves of the memory, and so
to different banks: STORE drains one while GEMM fills the other.  Successive kernels take
successive places where they fit, so that one's loads need not wait for the other's end.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from tilewright.compiler.ir.loops import Allocate, Buffer, For, Kernel, Kind, Scope, Statement
from tilewright.hw.config import Config
from tilewright.hw.errors import CompileError

NUM_THREADS = 2


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
        requests = list(_allocations(kernel.body, threaded=False))
        arenas = self._arenas(requests)
        places: dict[str, list[int]] = {buffer.name: [] for buffer, _ in requests}
        for (scope, number), (low, high) in arenas.items():
            wanted = [(b, n) for b, n in requests if b.scope is scope]
            sizes = [(b, b.num_tiles) for b, n in wanted for _ in _copies(scope, number, n, arenas)]
            total = sum(size for _, size in sizes)
            if total > high - low:
                raise CompileError(
                    f"lower: {kernel.name}: {scope.value} buffers need {total} tiles,"
                    f" there are {high - low}"
                )
            start = self._ends.get((scope, number), low)
            start = start if low <= start and start + total <= high else low
            for buffer, size in sizes:
                places[buffer.name].append(start)
                start += size
            self._ends[scope, number] = start
        return {name: tuple(starts) for name, starts in places.items()}

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
    """The copies of a buffer that go to an arena: one to each half, or all to the whole."""
    if (scope, 1) in arenas:
        return range(1 if number < copies else 0)
    return range(copies)


def _allocations(body: tuple[Statement, ...], *, threaded: bool) -> Iterator[tuple[Buffer, int]]:
    for statement in body:
        match statement:
            case For(_, _, kind, inner):
                yield from _allocations(inner, threaded=threaded or kind is Kind.VIRTUAL_THREAD)
            case Allocate(buffer):
                yield buffer, NUM_THREADS if threaded else 1
            case _:
                pass
