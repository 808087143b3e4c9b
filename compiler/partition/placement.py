"""Which target runs each node, and why; regions of the accelerator as large as order allows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tilewright.compiler.ir.graph import Graph, Node
from tilewright.compiler.ir.layout import ALIASES
from tilewright.compiler.ir.loops import Declined, Kernel
from tilewright.compiler.ir.packed import alias_layout, layout_of_value, lies_as
from tilewright.hw.config import Config
from tilewright.hw.errors import CompileError

ACCELERATOR = "accelerator"
CPU = "cpu"

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


def place(graph: Graph, config: Config, build: Build) -> dict[str, Placed]:
    """Return the placement of every node, by name."""
    placed: dict[str, Placed] = {}
    on_machine: set[str] = set()
    packed_once: set[str] = set()
    for node in graph.nodes:
        x = node.inputs[0] if node.inputs else ""
        host_packs = x not in on_machine or x in packed_once
        decision = _decide(graph, node, config, build, host_packs=host_packs)
        placed[node.name] = decision
        if decision.on_accelerator:
            on_machine.update(node.outputs)
        if decision.kernel is None and host_packs and len(graph.consumers(x)) == 1:
            packed_once.update(node.outputs)
    return placed | _left_on_host(graph, placed)


def _decide(graph: Graph, node: Node, config: Config, build: Build, *, host_packs: bool) -> Placed:
    if node.op in BORDER:
        return Placed(node, CPU, "the border between real values and stored integers")
    tensors = [graph.type(name) for name in (*node.inputs, *node.outputs) if name]
    if any(0 in kind.shape for kind in tensors):
        return Placed(node, CPU, "one of its tensors has no elements")
    if node.op in ALIASES and _keeps_bytes(graph, node, config):
        return Placed(node, ACCELERATOR, "an alias: its packed bytes are its input's")
    kernel = build(node, host_packs)
    if isinstance(kernel, Declined):
        return Placed(node, CPU, kernel.reason)
    return Placed(node, ACCELERATOR, "integer operator within the machine's limits", kernel)


def _keeps_bytes(graph: Graph, node: Node, config: Config) -> bool:
    x, y = node.inputs[0], node.outputs[0]
    if graph.type(x).dtype not in ("int8", "uint8") or x in graph.constants:
        return False
    try:
        layout = alias_layout(graph, node, layout_of_value(graph, x))
        return layout is not None and lies_as(graph, y, layout, config)
    except CompileError:
        return False


def _left_on_host(graph: Graph, placed: Mapping[str, Placed]) -> dict[str, Placed]:
    """Aliases of what the host makes are the host's unless the machine alone reads them."""
    host = {name for node in graph.nodes for name in node.outputs} | set(graph.input_names)
    for node in graph.nodes:
        if placed[node.name].on_accelerator and (
            placed[node.name].kernel or node.inputs[0] not in host
        ):
            host.difference_update(node.outputs)
    found: dict[str, Placed] = {}
    for node in reversed(graph.nodes):
        y = node.outputs[0]
        decision = placed[node.name]
        if not decision.on_accelerator or decision.kernel or y not in host:
            continue
        readers = [found.get(n.name, placed[n.name]) for n in graph.consumers(y)]
        machine_only = bool(readers) and all(reader.on_accelerator for reader in readers)
        if y in graph.output_names or not machine_only:
            found[node.name] = Placed(node, CPU, "its input is on the host, where it is free")
    return found


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
