"""The executor on a hand-made program: pack, machine, unpack, host call."""

import dataclasses
import re

import numpy as np
import pytest

from tilewright.hw.errors import ModelError
from tilewright.hw.isa import Segment
from tilewright.runtime.device import RunResult, Segments
from tilewright.runtime.executor import Executor
from tilewright.runtime.program import HostCall, Program
from tilewright.sim.functional import FunctionalEngine

X = np.array([[1, -2, 3, 4]], np.int8)


def test_outputs_are_the_machine_s_and_the_host_s(two_layers: Program) -> None:
    execution = Executor(two_layers, FunctionalEngine(two_layers.config)).run({"x": X})
    expected = 6 * np.roll(X, 1, axis=1)
    assert execution.outputs["y"].tolist() == expected.tolist()
    assert execution.outputs["real"].tolist() == (expected * 0.5).tolist()
    assert list(execution.outputs) == ["y", "real"]


def test_every_tensor_is_kept_when_all_are_asked_for(two_layers: Program) -> None:
    engine = FunctionalEngine(two_layers.config)
    execution = Executor(two_layers, engine, all_tensors=True).run({"x": X})
    assert execution.tensors["q"].tolist() == (2 * np.roll(X, -1, axis=1)).tolist()
    assert set(execution.tensors) == {"x", "q", "y", "real"}
    assert execution.tensors["y"].tolist() == execution.outputs["y"].tolist()


def test_a_second_request_does_not_see_the_first(two_layers: Program) -> None:
    executor = Executor(two_layers, FunctionalEngine(two_layers.config))
    first = executor.run({"x": X})
    again = executor.run({"x": np.zeros((1, 4), np.int8)})
    assert again.outputs["y"].tolist() == [[0, 0, 0, 0]]
    assert first.outputs["y"].tolist() == (6 * np.roll(X, 1, axis=1)).tolist()


def test_host_work_is_recorded_with_its_bytes(two_layers: Program) -> None:
    execution = Executor(two_layers, FunctionalEngine(two_layers.config)).run({"x": X})
    assert [(r.name, r.op, r.bytes_in, r.bytes_out) for r in execution.host] == [
        ("x", "Pack", 4, 4),
        ("y", "Unpack", 4, 4),
        ("dequantize", "DequantizeLinear", 4, 16),
    ]


def test_the_machine_gets_only_its_invocation_s_code(two_layers: Program) -> None:
    seen: list[int] = []

    class Recorder:
        def run(self, segments: Segments) -> RunResult:
            seen.append(segments[Segment.CODE].size)
            return RunResult(None, None, 0, 0)

    Executor(two_layers, Recorder()).run({"x": X})
    assert seen == [11 * 32]


@pytest.mark.parametrize(
    ("feeds", "message"),
    [
        ({}, "input 'x': missing; give int8[1, 4]"),
        (
            {"x": X, "z": X},
            "input 'z': no such input; the model's are x (int8[1, 4])",
        ),
        (
            {"x": X.astype(np.float32)},
            "input 'x': element type float32, but the model takes int8;"
            " convert it with .astype('int8')",
        ),
        (
            {"x": X[:, :3]},
            "input 'x': shape [1, 3], but the program takes [1, 4];"
            " give one inference of that shape",
        ),
    ],
)
def test_feeds_that_do_not_fit_are_refused(
    two_layers: Program, feeds: dict[str, np.ndarray], message: str
) -> None:
    executor = Executor(two_layers, FunctionalEngine(two_layers.config))
    with pytest.raises(ModelError, match=f"^{re.escape(message)}$"):
        executor.run(feeds)


def test_an_operator_without_a_kernel_is_named(two_layers: Program) -> None:
    steps = (*two_layers.steps[:3], HostCall(2, "Unheard", ("y",), ("real",)))
    program = dataclasses.replace(two_layers, steps=steps)
    message = "dequantize: Unheard has no host kernel in this tilewright"
    with pytest.raises(ModelError, match=f"^{message}$"):
        Executor(program, FunctionalEngine(program.config)).run({"x": X})
