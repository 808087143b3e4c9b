"""Compare a run's outputs with two references: exact arithmetic and onnxruntime.

Exact: any difference is a mismatch.  onnxruntime: every layer is fed onnxruntime's own inputs,
so that errors do not add up; see `OnnxruntimeCheck`.
"""

import importlib
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType

import numpy as np
import onnx

from tilewright.compiler.ir.graph import Graph, Node
from tilewright.exact import Tensors, execute, execute_node
from tilewright.hw.errors import ModelError
from tilewright.runtime.host import KERNELS
from tilewright.runtime.tensor import Array

MAX_STEPS = 1
MAX_SHARE = 0.001
RTOL = 1e-4
"""Of real values: sums in another order; near zero, relative to the tensor's largest value."""
TIE = 0.001
"""Steps.  onnxruntime computes QDQ models in float32, whose error decides exact ties."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """The first element that differs: sample, tensor, index, and both values."""

    sample: int
    tensor: str
    index: tuple[int, ...]
    got: float
    expected: float

    def __str__(self) -> str:
        """Return e.g. `logits[0, 3] of sample 7: got 12, expected 13`."""
        return (
            f"{self.tensor}{list(self.index)} of sample {self.sample}:"
            f" got {self.got:g}, expected {self.expected:g}"
        )


@dataclass(frozen=True, slots=True)
class ExactCheck:
    """Values of the run against exact arithmetic.

    `assumed` are tensors that exact arithmetic does not define (real-valued operators on the
    host): taken from the run, so that what follows is still compared; `skipped` the tensors
    that could not be compared.
    """

    compared: int = 0
    mismatched: int = 0
    max_abs_error: float = 0.0
    first: Mismatch | None = None
    assumed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether nothing that was compared differs."""
        return self.mismatched == 0


@dataclass(frozen=True, slots=True)
class OnnxruntimeCheck:
    """Layers against onnxruntime, graph optimizations off.

    An integer tensor fails when more than 0.1 % of its values differ or one differs by more
    than 1, a real one when a value is off by more than rtol 1e-4.  Of the `mismatched` values
    `ties` differ by one where the exact result lies within 0.001 steps of a rounding tie; they
    are right either way and do not count towards the 0.1 %.  `end_to_end_max_abs_error`
    and `top1_agreement` (over samples, of the first output with classes) compare the run's
    outputs.  `unavailable` says why nothing was compared.
    """

    compared: int = 0
    mismatched: int = 0
    ties: int = 0
    max_abs_error: float = 0.0
    failed: tuple[str, ...] = ()
    first: Mismatch | None = None
    end_to_end_max_abs_error: float = 0.0
    top1_agreement: float | None = None
    unavailable: str = ""

    @property
    def passed(self) -> bool:
        """Whether no tensor failed."""
        return not self.failed


@dataclass(frozen=True, slots=True)
class CheckResult:
    """Both comparisons."""

    exact: ExactCheck
    onnxruntime: OnnxruntimeCheck

    @property
    def passed(self) -> bool:
        """Whether both passed; an absent onnxruntime does not fail."""
        return self.exact.passed and self.onnxruntime.passed


def check(
    graph: Graph,
    feeds: Sequence[Tensors],
    outputs: Sequence[Tensors],
    *,
    layers: bool = False,
) -> CheckResult:
    """Compare outputs, one mapping a sample, with both references.

    `outputs` holds at least the graph's outputs; with `layers` every tensor in it is compared,
    and every layer with onnxruntime, otherwise the layers that make the outputs.

    Raises:
        ModelError: an output is missing, or has another shape or element type.
    """
    exact = check_exact(graph, feeds, outputs, layers=layers)
    return CheckResult(exact, check_onnxruntime(graph, feeds, outputs, layers=layers))


@dataclass(slots=True)
class _Tally:
    """Differences of one tensor over samples."""

    compared: int = 0
    mismatched: int = 0
    ties: int = 0
    max_abs_error: float = 0.0
    first: Mismatch | None = None

    def add(self, sample: int, name: str, got: Array, expected: Array, *, rtol: float) -> bool:
        """Count differences and return whether there are any."""
        if got.shape != expected.shape or got.dtype != expected.dtype:
            raise ModelError(
                f"check: {name} is {got.dtype}{list(got.shape)},"
                f" expected {expected.dtype}{list(expected.shape)}"
            )
        error = np.abs(got.astype(np.float64) - expected.astype(np.float64))
        bound = rtol * np.abs(expected).max(initial=0) if rtol else 0.0
        differs = ~(error <= bound)
        self.compared += got.size
        self.mismatched += int(differs.sum())
        self.max_abs_error = max(self.max_abs_error, float(error.max(initial=0)))
        if self.first is None and differs.any():
            index = tuple(int(i) for i in np.argwhere(differs)[0])
            self.first = Mismatch(sample, name, index, float(got[index]), float(expected[index]))
        return bool(differs.any())


def check_exact(
    graph: Graph, feeds: Sequence[Tensors], outputs: Sequence[Tensors], *, layers: bool = False
) -> ExactCheck:
    """Compare with the exact executor."""
    tallies: dict[str, _Tally] = {}
    assumed: set[str] = set()
    made = [name for node in graph.nodes for name in node.outputs]
    wanted = made if layers else list(graph.output_names)
    for sample, (feed, output) in enumerate(zip(feeds, outputs, strict=True)):
        expected = execute(graph, feed, output)
        assumed |= {name for name in made if name in output and expected.get(name) is output[name]}
        for name in wanted:
            if name in output and name in expected and name not in assumed:
                tally = tallies.setdefault(name, _Tally())
                tally.add(sample, name, output[name], expected[name], rtol=0.0)
            elif name in graph.output_names and name not in output:
                raise ModelError(f"check: output {name!r} is missing")
    skipped = tuple(name for name in graph.output_names if name not in tallies)
    total = _sum(tallies)
    return ExactCheck(
        total.compared,
        total.mismatched,
        total.max_abs_error,
        total.first,
        tuple(sorted(assumed)),
        skipped,
    )


def _sum(tallies: Mapping[str, _Tally]) -> _Tally:
    every = tallies.values()
    firsts = [tally.first for tally in every if tally.first]
    return _Tally(
        sum(tally.compared for tally in every),
        sum(tally.mismatched for tally in every),
        sum(tally.ties for tally in every),
        max((tally.max_abs_error for tally in every), default=0.0),
        min(firsts, key=lambda m: m.sample, default=None),
    )


def check_onnxruntime(
    graph: Graph, feeds: Sequence[Tensors], outputs: Sequence[Tensors], *, layers: bool = False
) -> OnnxruntimeCheck:
    """Compare layer by layer, and end to end."""
    if importlib.util.find_spec("onnxruntime") is None:
        return OnnxruntimeCheck(unavailable="onnxruntime is not installed")
    if not graph.model:
        return OnnxruntimeCheck(unavailable="the ONNX model is not at hand")
    try:
        return _compare(graph, feeds, outputs, layers=layers)
    except _UnavailableError as error:
        return OnnxruntimeCheck(unavailable=str(error))


def _compare(
    graph: Graph, feeds: Sequence[Tensors], outputs: Sequence[Tensors], *, layers: bool
) -> OnnxruntimeCheck:
    session = _Session(graph, importlib.import_module("onnxruntime"))
    tallies: dict[str, _Tally] = {}
    agreed: list[bool] = []
    distance = 0.0
    for sample, (feed, output) in enumerate(zip(feeds, outputs, strict=True)):
        theirs = session.run(feed)
        for layer in _layers(graph, theirs, layers=layers):
            for name, got in layer.results.items():
                rtol = RTOL if theirs[name].dtype.kind == "f" else 0.0
                tally = tallies.setdefault(name, _Tally())
                if tally.add(sample, name, got, theirs[name], rtol=rtol) and not rtol:
                    tally.ties += layer.count_ties(name, theirs[name])
        ours = {**graph.constants, **feed, **output}
        for name in graph.output_names:
            error = np.abs(ours[name].astype(np.float64) - theirs[name].astype(np.float64))
            distance = max(distance, float(error.max(initial=0)))
        classes = [n for n in graph.output_names if theirs[n].ndim > 1 and theirs[n].shape[-1] > 1]
        if classes:
            best = theirs[classes[0]].argmax(-1) == ours[classes[0]].argmax(-1)
            agreed += best.reshape(-1).tolist()
    total = _sum(tallies)
    return OnnxruntimeCheck(
        total.compared,
        total.mismatched,
        total.ties,
        total.max_abs_error,
        tuple(name for name, tally in tallies.items() if _fails(graph, name, tally)),
        total.first,
        distance,
        float(np.mean(agreed)) if agreed else None,
    )


def _fails(graph: Graph, name: str, tally: _Tally) -> bool:
    if graph.type(name).dtype.startswith("float"):
        return tally.mismatched > 0
    return tally.max_abs_error > MAX_STEPS or (
        tally.mismatched - tally.ties > MAX_SHARE * tally.compared
    )


@dataclass(frozen=True, slots=True)
class _FedLayer:
    """A node, what it read (onnxruntime's tensors), and those of its results to compare."""

    graph: Graph
    node: Node
    inputs: Tensors
    results: Tensors

    def count_ties(self, name: str, theirs: Array) -> int:
        """Return how many differing values lie between the results nudged down and up."""
        low = execute_node(self.graph, self.node, self.inputs, nudge=-TIE)
        high = execute_node(self.graph, self.node, self.inputs, nudge=TIE)
        if low is None or high is None:
            return 0
        between = np.less_equal(low[name], theirs) & np.less_equal(theirs, high[name])
        return int((between & np.not_equal(theirs, self.results[name])).sum())


def _layers(graph: Graph, theirs: Tensors, *, layers: bool) -> Iterator[_FedLayer]:
    """Each layer on onnxruntime's inputs, with the tensors that onnxruntime has too.

    Operators without an exact rule are computed by the host kernels that a run uses.  A tensor
    that only the canonical graph has is computed from theirs and passed on.
    """
    known: dict[str, Array] = {**graph.constants, **theirs}
    for node in graph.nodes:
        results = execute_node(graph, node, known) or _on_host(graph, node, known)
        known |= {name: array for name, array in results.items() if name not in theirs}
        wanted = [n for n in results if n in theirs and (layers or n in graph.output_names)]
        inputs = {name: known[name] for name in node.inputs if name in known}
        yield _FedLayer(graph, node, inputs, {name: results[name] for name in wanted})


def _on_host(graph: Graph, node: Node, tensors: Tensors) -> dict[str, Array]:
    """A node's outputs by its host kernel; none without one, or with an input missing."""
    if node.op not in KERNELS or any(name and name not in tensors for name in node.inputs):
        return {}
    arrays = [tensors[name] if name else None for name in node.inputs]
    kinds = [graph.type(name) if name else None for name in node.inputs]
    out = [graph.type(name) for name in node.outputs]
    results = KERNELS[node.op](arrays, node.attributes, kinds, out)
    return dict(zip(node.outputs, results, strict=True))


class _UnavailableError(Exception):
    """onnxruntime cannot load or run the model; the message is its reason, one line."""


@contextmanager
def _reasons(module: ModuleType, what: str) -> Iterator[None]:
    """Turn onnxruntime's errors into `_UnavailableError`."""
    state = importlib.import_module(f"{module.__name__}.capi.onnxruntime_pybind11_state")
    errors = [e for e in vars(state).values() if isinstance(e, type) and issubclass(e, Exception)]
    try:
        yield
    except (*errors, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise _UnavailableError(f"onnxruntime cannot {what} the model: {reason}") from error


class _Session:
    """onnxruntime on the model, with every tensor of the graph that the model has as an output."""

    def __init__(self, graph: Graph, onnxruntime: ModuleType) -> None:
        model = onnx.ModelProto()
        model.ParseFromString(graph.model)
        known = {name for node in model.graph.node for name in node.output}
        have = {value.name for value in model.graph.output}
        for node in graph.nodes:
            for name in node.outputs:
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


def batched(samples: Sequence[Tensors]) -> list[Tensors]:
    """Join samples along the first axis, for graphs whose batch is still a symbol."""
    if not samples:
        return []
    return [{name: np.concatenate([s[name] for s in samples]) for name in samples[0]}]


__all__ = [
    "CheckResult",
    "ExactCheck",
    "Mismatch",
    "OnnxruntimeCheck",
    "batched",
    "check",
    "check_exact",
    "check_onnxruntime",
]
