"""The static DRAM plan: a segment and two offsets for every tensor the machine touches.

In the compact plan workspace is reused once a tensor's last reader is past; in the distinct
plan every tensor has bytes of its own.  All offsets are multiples of 4 KiB, so both plans
cost the same cycles.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.compiler.ir.graph import Graph, Node
from tilewright.compiler.ir.packed import packing_of
from tilewright.compiler.partition.placement import CPU, Placed
from tilewright.hw.config import Config
from tilewright.hw.isa import SEGMENT_ALIGNMENT, Segment
from tilewright.runtime.program import Placement

Runs = Sequence[tuple[str, list[Node]]]


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Placements by tensor, and the sizes of the segments they lie in."""

    placements: Mapping[str, Placement]
    segment_bytes: Mapping[Segment, int]
    distinct_workspace_bytes: int


@dataclass(frozen=True, slots=True)
class _Life:
    """A tensor with bytes of its own: when it is written and read last, and its size."""

    name: str
    segment: Segment
    begin: int
    end: int
    size: int


def plan_memory(
    graph: Graph, placed: Mapping[str, Placed], runs: Runs, config: Config
) -> MemoryPlan:
    """Return the plan; an alias has the place of the tensor it renames."""
    roots = _roots(graph, placed)
    kernels = [decision.kernel for decision in placed.values() if decision.kernel]
    folds = {roots[name]: fold for kernel in kernels for name, fold in kernel.folds.items()}
    packings = {n: packing_of(graph, n, config, folds.get(root)) for n, root in roots.items()}
    sizes_of = {root: packings[root].num_bytes for root in roots.values()}
    lives = _lives(graph, placed, runs, roots, sizes_of)
    compact, distinct, sizes = _offsets(lives)
    placements = {}
    for name, root in roots.items():
        life = lives[root]
        placements[name] = Placement(life.segment, compact[root], distinct[root], packings[name])
    return MemoryPlan(placements, *sizes)


def _roots(graph: Graph, placed: Mapping[str, Placed]) -> dict[str, str]:
    """Return the tensor whose bytes each tensor on the machine has."""
    roots: dict[str, str] = {}
    for node in graph.nodes:
        decision = placed[node.name]
        if not decision.on_accelerator:
            continue
        if decision.kernel is None:
            root = roots.setdefault(node.inputs[0], node.inputs[0])
            roots[node.outputs[0]] = root
            continue
        for name in (*decision.kernel.inputs.values(), *decision.kernel.outputs.values()):
            roots.setdefault(name, name)
    return roots


def _lives(
    graph: Graph,
    placed: Mapping[str, Placed],
    runs: Runs,
    roots: Mapping[str, str],
    num_bytes: Mapping[str, int],
) -> dict[str, _Life]:
    written = {
        name for node in graph.nodes if placed[node.name].on_accelerator for name in node.outputs
    }
    to_host = {roots[name] for name in graph.output_names if name in written}
    times: dict[str, tuple[int, int]] = {}
    time = 0
    for target, nodes in runs:
        for node in nodes:
            time += 1
            for name in (*node.inputs, *node.outputs):
                if name not in roots:
                    continue
                root = roots[name]
                times[root] = (times.get(root, (time, time))[0], time)
                if target == CPU and root in written:
                    to_host.add(root)
    lives = {}
    for root, (begin, end) in times.items():
        segment = Segment.INPUT
        if root in written:
            segment = Segment.OUTPUT if root in to_host else Segment.WORKSPACE
        pages = -(-num_bytes[root] // SEGMENT_ALIGNMENT)
        lives[root] = _Life(root, segment, begin, end, pages)
    return lives


def _offsets(
    lives: Mapping[str, _Life],
) -> tuple[dict[str, int], dict[str, int], tuple[dict[Segment, int], int]]:
    """Return compact and distinct offsets in bytes, and (segment sizes, distinct workspace)."""
    compact: dict[str, int] = {}
    distinct: dict[str, int] = {}
    ends = dict.fromkeys((Segment.WORKSPACE, Segment.INPUT, Segment.OUTPUT), 0)
    pages = dict(ends)
    placed: list[tuple[_Life, int]] = []
    for life in sorted(lives.values(), key=lambda life: life.begin):
        distinct[life.name] = pages[life.segment] * SEGMENT_ALIGNMENT
        pages[life.segment] += life.size
        if life.segment is Segment.WORKSPACE:
            start = _first_gap(life, placed)
            placed.append((life, start))
        else:
            start = ends[life.segment]
        compact[life.name] = start * SEGMENT_ALIGNMENT
        ends[life.segment] = max(ends[life.segment], start + life.size)
    sizes = {segment: end * SEGMENT_ALIGNMENT for segment, end in ends.items()}
    return compact, distinct, (sizes, pages[Segment.WORKSPACE] * SEGMENT_ALIGNMENT)


def _first_gap(life: _Life, placed: Sequence[tuple[_Life, int]]) -> int:
    """The lowest page from which the tensor overlaps nothing that lives at the same time."""
    taken = sorted(
        (start, start + other.size)
        for other, start in placed
        if other.begin <= life.end and life.begin <= other.end
    )
    at = 0
    for start, end in taken:
        if at + life.size <= start:
            break
        at = max(at, end)
    return at
