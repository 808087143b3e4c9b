"""Compare a run's outputs with two references: exact arithmetic and onnxruntime.

Exact: any difference is a mismatch.  onnxruntime: every layer is fed onnxruntime's own inputs,
so that errors do not add up; see `OnnxruntimeCheck`.
"""

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.compiler.ir.graph import Graph
from tilewright.exact import Tensors, execute
from tilewright.hw.errors import ModelError
from tilewright.onnxruntime_layers import Session, UnavailableError, fed_layers
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
    real: bool = False

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
        self.real = got.dtype.kind == "f"
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
    except UnavailableError as error:
        return OnnxruntimeCheck(unavailable=str(error))


def _compare(
    graph: Graph, feeds: Sequence[Tensors], outputs: Sequence[Tensors], *, layers: bool
) -> OnnxruntimeCheck:
    session = Session(graph, importlib.import_module("onnxruntime"))
    tallies: dict[str, _Tally] = {}
    agreed: list[bool] = []
    distance = 0.0
    for sample, (feed, output) in enumerate(zip(feeds, outputs, strict=True)):
        theirs = session.run(feed)
        for layer in fed_layers(graph, theirs, session.renamed):
            for name, got in layer.results.items():
                if not layers and name not in graph.output_names:
                    continue
                rtol = RTOL if theirs[name].dtype.kind == "f" else 0.0
                tally = tallies.setdefault(name, _Tally())
                if tally.add(sample, name, got, theirs[name], rtol=rtol) and not rtol:
                    tally.ties += layer.count_ties(name, theirs[name], TIE)
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
        tuple(name for name, tally in tallies.items() if _fails(tally)),
        total.first,
        distance,
        float(np.mean(agreed)) if agreed else None,
    )


def _fails(tally: _Tally) -> bool:
    if tally.real:
        return tally.mismatched > 0
    return tally.max_abs_error > MAX_STEPS or (
        tally.mismatched - tally.ties > MAX_SHARE * tally.compared
    )


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
