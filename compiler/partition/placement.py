"""Which target runs each node, and why; regions of the accelerator as large as order allows."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tilewright.compiler.ir.graph import Graph, Node
from tilewright.compiler.ir.layout import ALIASES, MOVES
from tilewright.compiler.ir.loops import Declined, Kernel
from tilewright.compiler.ir.packed import alias_layout, layout_of_value, lies_as
from tilewright.hw.config import Config

ACCELERATOR = "accelerator"
CPU = "cpu"

BORDER = frozenset({"QuantizeLinear", "DequantizeLinear"})

FREE_ON_HOST = "its input is on the host, where it is free"


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
    made_by_machine: set[str] = set()
    packed_once: set[str] = set(graph.values)
    for node in graph.nodes:
        x = node.inputs[0] if node.inputs else ""
        on_host = x not in made_by_machine
        if on_host and _moves_only(node) and not _keeps_bytes(graph, node, config):
            decision = Placed(node, CPU, FREE_ON_HOST)
        else:
            decision = _decide(graph, node, config, build, host_packs=on_host and x in packed_once)
        placed[node.name] = decision
        if decision.kernel or (decision.on_accelerator and not on_host):
            made_by_machine.update(node.outputs)
        if decision.on_accelerator and (x not in packed_once or len(graph.consumers(x)) > 1):
            packed_once.difference_update(node.outputs)
    return placed | _left_on_host(graph, placed)


def _decide(graph: Graph, node: Node, config: Config, build: Build, *, host_packs: bool) -> Placed:
    if node.op in BORDER:
        return Placed(node, CPU, "the border between real values and stored integers")
    tensors = [graph.type(name) for name in (*node.inputs, *node.outputs) if name]
    if any(0 in kind.shape for kind in tensors):
        return Placed(node, CPU, "one of its tensors has no elements")
    if _keeps_bytes(graph, node, config):
        return Placed(node, ACCELERATOR, "an alias: its packed bytes are its input's")
    kernel = build(node, host_packs)
    if isinstance(kernel, Declined):
        return Placed(node, CPU, kernel.reason)
    return Placed(node, ACCELERATOR, "integer operator within the machine's limits", kernel)


def _moves_only(node: Node) -> bool:
    return node.op in ALIASES or (node.op in MOVES and node.op != "Concat")


def _keeps_bytes(graph: Graph, node: Node, config: Config) -> bool:
    x, y = node.inputs[0], node.outputs[0]
    if (
        node.op not in ALIASES
        or graph.type(x).dtype not in ("int8", "uint8")
        or x in graph.constants
    ):
        return False
    layout = alias_layout(graph, node, layout_of_value(graph, x))
    return layout is not None and lies_as(graph, y, layout, config)


def _left_on_host(graph: Graph, placed: Mapping[str, Placed]) -> dict[str, Placed]:
    """Aliases of what the host makes are the host's unless the machine alone reads them."""
    host = set(graph.values)
    for node in graph.nodes:
        decision = placed[node.name]
        if decision.kernel or (decision.on_accelerator and node.inputs[0] not in host):
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
            found[node.name] = Placed(node, CPU, FREE_ON_HOST)
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
