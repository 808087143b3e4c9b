"""Operator templates: an operator of the graph as a kernel, or the reason why it has none."""

from collections.abc import Callable

from tilewright.compiler.ir.graph import Graph, Node
from tilewright.compiler.ir.layout import ALIASES, REQUIRED, image_layout
from tilewright.compiler.ir.loops import Declined, Kernel
from tilewright.compiler.ir.packed import layout_of_value, lies_as
from tilewright.compiler.schedule.arithmetic import product, requantize, signed_sum
from tilewright.compiler.schedule.folding import fold_of
from tilewright.compiler.schedule.placing import concat, cut, expand, gather, relayout
from tilewright.compiler.schedule.pools import average_pool, max_pool, mean
from tilewright.compiler.schedule.products import convolution, matrix_product
from tilewright.hw.config import Config
from tilewright.hw.errors import CompileError
from tilewright.runtime.packing import Fold

Template = Callable[[Graph, Node, Config], Kernel]

TEMPLATES: dict[str, Template] = {
    "Add": signed_sum,
    "AveragePool": average_pool,
    "Concat": concat,
    "Conv": convolution,
    "Expand": expand,
    "Gather": gather,
    "MatMul": matrix_product,
    "MaxPool": max_pool,
    "Mul": product,
    "ReduceMean": mean,
    "Requantize": requantize,
    "Slice": cut,
    "Sub": signed_sum,
    **dict.fromkeys(ALIASES, relayout),
}


def build_kernel(
    graph: Graph, node: Node, config: Config, *, host_packs: bool = False
) -> Kernel | Declined:
    """Return the kernel of a node, scheduled for a config, or why there is none.

    With `host_packs` the first input may be folded, if every operator that reads it agrees.
    """
    problem = _problem(graph, node) or _misplaced(graph, node, config)
    if problem:
        return Declined(problem)
    try:
        if host_packs and (fold := _common_fold(graph, node.inputs[0], config)):
            return convolution(graph, node, config, fold)
        return TEMPLATES[node.op](graph, node, config)
    except CompileError as error:
        return Declined(str(error))


def _common_fold(graph: Graph, name: str, config: Config) -> Fold | None:
    """The fold that every operator on the machine wants of a tensor."""
    if layout_of_value(graph, name) != image_layout(graph.type(name).static_shape):
        return None
    readers = [node for node in graph.consumers(name) if node.op in TEMPLATES]
    folds = {fold_of(graph, node, config) if node.op == "Conv" else None for node in readers}
    return folds.pop() if len(folds) == 1 else None


def _problem(graph: Graph, node: Node) -> str | None:
    """What is wrong with a node's operator or tensors for every config, if anything."""
    if node.op not in TEMPLATES:
        return f"the accelerator has no {node.op}"
    given = [name for name in node.inputs if name and name not in graph.constants]
    for name in (*given, node.outputs[0]):
        kind = graph.type(name)
        if kind.dtype not in ("int8", "uint8", "int32"):
            return f"{name!r} is {kind.dtype}; the accelerator computes on int8 and uint8"
    for name in given:
        if graph.type(name).dtype == "int32":
            return f"{name!r} is int32; the accelerator reads int8 and uint8"
    return None if given else "its inputs are constants"


def _misplaced(graph: Graph, node: Node, config: Config) -> str | None:
    """Which tensor of a node does not lie as its template needs it, if any."""
    if node.op not in REQUIRED:
        return None
    for name in (node.inputs[0], node.outputs[0]):
        layout = REQUIRED[node.op](graph.type(name).static_shape)
        if layout is None:
            return f"{name!r} has {len(graph.type(name).shape)} dimensions"
        if not lies_as(graph, name, layout, config):
            return f"{name!r} lies with other channels"
    return None
