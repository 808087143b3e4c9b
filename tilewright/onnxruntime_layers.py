"""onnxruntime as a reference: every tensor of a model, and each layer computed from them."""

import importlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType

import numpy as np
import onnx

from tilewright.compiler.ir.graph import Graph, Node
from tilewright.compiler.ir.operators import OPERATORS, Fusion
from tilewright.exact import Tensors, execute_node
from tilewright.runtime.host import KERNELS
from tilewright.runtime.tensor import Array


@dataclass(frozen=True, slots=True)
class FedLayer:
    """A node, what it read (onnxruntime's tensors), and its results that onnxruntime has too.

    Those go by onnxruntime's names and shapes; `own` has the graph's names for them.  `moved` is
    what computed the first input, where this node only moves a tensor onnxruntime lacks.
    """

    graph: Graph
    node: Node
    inputs: Tensors
    results: Tensors
    own: Mapping[str, str]
    moved: "FedLayer | None" = None

    def count_ties(self, name: str, theirs: Array, tie: float) -> int:
        """Return how many differing values lie between the results nudged down and up by `tie`."""
        low, high = (self.nudged(nudge).get(self.own[name]) for nudge in (-tie, tie))
        if low is None or high is None:
            return 0
        between = np.less_equal(low.reshape(theirs.shape), theirs)
        between &= np.less_equal(theirs, high.reshape(theirs.shape))
        return int((between & np.not_equal(theirs, self.results[name])).sum())

    def nudged(self, nudge: float) -> dict[str, Array]:
        """Return the outputs with `nudge` added before rounding; none without an exact rule."""
        inputs = {**self.inputs, **(self.moved.nudged(nudge) if self.moved else {})}
        return execute_node(self.graph, self.node, inputs, nudge=nudge) or {}


def fed_layers(graph: Graph, theirs: Tensors, renamed: Mapping[str, str]) -> Iterator[FedLayer]:
    """Each layer on onnxruntime's inputs, with the results that onnxruntime has too.

    `renamed` gives the model's name for a tensor of the graph that holds the same elements in
    another shape.  Operators without an exact rule are computed by the host kernels that a run
    uses.  A tensor that only the canonical graph has is computed from theirs and passed on.
    """
    known: dict[str, Array] = {**graph.constants, **theirs}
    unknown: dict[str, FedLayer] = {}
    compared = set[str]()
    for node in graph.nodes:
        computed = execute_node(graph, node, known) or _on_host(graph, node, known)
        inputs = {name: known[name] for name in node.inputs if name in known}
        results: dict[str, Array] = {}
        own: dict[str, str] = {}
        for name, array in computed.items():
            label = renamed.get(name, name)
            expected = theirs.get(label)
            if expected is not None and _agree(array, expected) and label not in compared:
                compared.add(label)
                known[name] = expected.reshape(array.shape)
                results[label], own[label] = array.reshape(expected.shape), name
            elif label not in compared:
                known[name] = array
        moves = OPERATORS[node.op].fusion is Fusion.LAYOUT
        source = unknown.get(node.inputs[0]) if moves and node.inputs else None
        layer = FedLayer(graph, node, inputs, results, own, source)
        unknown |= {name: layer for name in node.outputs if name not in own.values()}
        yield layer


def _agree(ours: Array, theirs: Array) -> bool:
    """Whether two tensors of one name are one: fusion can leave a real value's name to integers."""
    return ours.dtype == theirs.dtype and ours.size == theirs.size


def _on_host(graph: Graph, node: Node, tensors: Tensors) -> dict[str, Array]:
    """A node's outputs by its host kernel; none without one, or with an input missing."""
    if node.op not in KERNELS or any(name and name not in tensors for name in node.inputs):
        return {}
    arrays = [tensors[name] if name else None for name in node.inputs]
    kinds = [graph.type(name) if name else None for name in node.inputs]
    out = [graph.type(name) for name in node.outputs]
    results = KERNELS[node.op](arrays, node.attributes, kinds, out)
    return dict(zip(node.outputs, results, strict=True))


def _renamed(graph: Graph, model: onnx.GraphProto) -> dict[str, str]:
    """Return the model's names of stored tensors that the graph has in another shape only.

    The last ONNX node that a node stands for makes its result; where that is a QuantizeLinear,
    nothing that moves values may stand before it in the model and behind it in the graph.
    """
    nodes = dict(zip(graph.origins, model.node, strict=True))
    makers = {name: key for key, node in nodes.items() for name in node.output}
    found: dict[str, list[str]] = {}
    for node in graph.nodes:
        if OPERATORS[node.op].fusion is Fusion.LAYOUT or not node.origin:
            continue
        name, last = node.outputs[0], nodes[node.origin[-1]]
        apart = last.op_type == "QuantizeLinear" and makers.get(last.input[0]) not in node.origin
        if graph.type(name).dtype in {"int8", "uint8"} and not apart:
            found.setdefault(last.output[0], []).append(name)
    return {
        names[0]: label
        for label, names in found.items()
        if len(names) == 1 and names[0] not in makers
    }


class UnavailableError(Exception):
    """onnxruntime cannot load or run the model; the message is its reason, one line."""


@contextmanager
def _reasons(module: ModuleType, what: str) -> Iterator[None]:
    """Turn onnxruntime's errors into `UnavailableError`."""
    state = importlib.import_module(f"{module.__name__}.capi.onnxruntime_pybind11_state")
    errors: list[type[Exception]] = [RuntimeError, ValueError]
    errors += [e for e in vars(state).values() if isinstance(e, type) and issubclass(e, Exception)]
    try:
        yield
    except tuple(errors) as error:
        reason = " ".join(str(error).split())
        raise UnavailableError(f"onnxruntime cannot {what} the model: {reason}") from error


class Session:
    """onnxruntime on the model, with every tensor of the graph that the model has as an output."""

    def __init__(self, graph: Graph, onnxruntime: ModuleType) -> None:
        model = onnx.ModelProto()
        model.ParseFromString(graph.model)
        known = {name for node in model.graph.node for name in node.output}
        have = {value.name for value in model.graph.output}
        self.renamed = _renamed(graph, model.graph)
        made = [name for node in graph.nodes for name in node.outputs]
        for name in dict.fromkeys([*made, *self.renamed.values()]):
            if name in known - have:
                model.graph.output.append(onnx.ValueInfoProto(name=name))
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        options.log_severity_level = 3
        with _reasons(onnxruntime, "load"):
            self._session = onnxruntime.InferenceSession(
                model.SerializeToString(), options, providers=["CPUExecutionProvider"]
            )
        self._onnxruntime = onnxruntime
        self._names = [value.name for value in model.graph.output]
        self._inputs = {value.name for value in self._session.get_inputs()}

    def run(self, feed: Tensors) -> dict[str, Array]:
        """Return inputs and every output for one sample."""
        given = {name: array for name, array in feed.items() if name in self._inputs}
        with _reasons(self._onnxruntime, "run"):
            results = self._session.run(self._names, given)
        return {**given, **dict(zip(self._names, results, strict=True))}
