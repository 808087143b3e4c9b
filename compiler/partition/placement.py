"""Which target runs each node, and why; regions of the accelerator as large as order allows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tilewright.compiler.ir.graph import Graph, Node
from tilewright.compiler.ir.loops import Declined, Kernel
from tilewright.compiler.ir.packed import packed_shape

ACCELERATOR = "accelerator"
CPU = "cpu"

ALIASES = frozenset({"Flatten", "Identity", "Reinterpret", "Reshape", "Squeeze", "Unsqueeze"})
"""Operators that only name values anew: free where the packed bytes stay the same."""

BORDER = frozenset({"QuantizeLinear", "DequantizeLinear"})


@dataclass(frozen=True, slots=True)
class Placed:
    """A node, its target and the reason; its kernel unless it runs on the host or is an alias."""

    node: Node
    target: str
    reason: str
    kernel: Kernel | None = None

    @property
    def on_accelerator(self) -> bool:
        """Whether the accelerator runs it, or its bytes stay there."""
        return self.target == ACCELERATOR


Build = Callable[[Node, bool], Kernel | Declined]
"""A node's kernel or a reason, given the node and whether the host packs its first input."""


def place(graph: Graph, build: Build) -> dict[str, Placed]:
    """Return the placement of every node, by name."""
    placed: dict[str, Placed] = {}
    on_machine: set[str] = set()
    for node in graph.nodes:
        decision = _decide(graph, node, on_machine, build)
        placed[node.name] = decision
        if decision.on_accelerator:
            on_machine.update(node.outputs)
    return placed


def _decide(
    graph: Graph,
    node: Node,
    on_machine: set[str],
    build: Build,
) -> Placed:
    if node.op in ALIASES:
        source, result = graph.type(node.inputs[0]), graph.type(node.outputs[0])
        if node.inputs[0] not in on_machine:
            return Placed(node, CPU, "its input is on the host, where it is free")
        shape = packed_shape(source)
        if shape is None or shape != packed_shape(result) or source.dtype != result.dtype:
            return Placed(node, CPU, f"{source} and {result} are packed differently")
        return Placed(node, ACCELERATOR, "an alias: its packed bytes are its input's")
    if node.op in BORDER:
        return Placed(node, CPU, "the border between real values and stored integers")
    kernel = build(node, node.inputs[0] not in on_machine)
    if isinstance(kernel, Declined):
        return Placed(node, CPU, kernel.reason)
    return Placed(node, ACCELERATOR, "integer operator within the machine's limits", kernel)


def order_nodes(graph: Graph, placed: Mapping[str, Placed]) -> list[tuple[str, list[Node]]]:
    """Return runs of nodes of one target in an order that respects data.

    Everything that is ready on one target runs before control changes, which keeps the number
    of invocations low.
    """
    known = {*graph.input_names, *graph.constants, ""}
    waiting = list(graph.nodes)
    runs: list[tuple[str, list[Node]]] = []
    target = CPU
    while waiting:
        run: list[Node] = []
        for node in list(waiting):
            if placed[node.name].target == target and known.issuperset(node.inputs):
                run.append(node)
                known.update(node.outputs)
                waiting.remove(node)
        if run:
            runs.append((target, run))
        target = ACCELERATOR if target == CPU else CPU
    return runs
