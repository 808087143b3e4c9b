"""What several folders share: the embedded model, a folder of models, a hand-made program."""

import os
from pathlib import Path

import numpy as np
import pytest

from tilewright.demo import LENET5
from tilewright.hw import isa
from tilewright.hw.config import Config
from tilewright.hw.encoding import encode, encode_parameters, encode_uops
from tilewright.hw.isa import Memory, Segment, Uop
from tilewright.runtime.packing import Packing
from tilewright.runtime.program import (
    HostCall,
    Invoke,
    Layer,
    Pack,
    Placement,
    Program,
    Tensor,
    Unpack,
)
from tilewright.runtime.tensor import Quantization, TensorType


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what passing tests recorded, also those that ran in another process."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties if report.when == "call" else ():
            terminalreporter.section(name)
            terminalreporter.write_line(str(value))


@pytest.fixture(scope="session")
def lenet5_path() -> Path:
    """The embedded model."""
    return LENET5


@pytest.fixture(scope="session")
def models_folder() -> Path:
    """The folder of models of `make test-models MODELS=…`; skips without one."""
    folder = os.environ.get("TILEWRIGHT_MODELS")
    if not folder:
        pytest.skip("no folder of models; run make test-models MODELS=DIR")
    return Path(folder)


@pytest.fixture
def two_layers() -> Program:
    """A program for `tiny`: q = x @ A.T, y = q @ B.T with int8 x[1, 4], and y's real values.

    A and B are 2 and 3 times a permutation, the output stages exact, so that
    y[c] = 6 · x[(c + 3) % 4] while nothing saturates.
    """
    config = Config.preset("tiny")
    first = np.roll(np.eye(4, dtype=np.int8), 1, axis=1) * np.int8(2)
    second = np.roll(np.eye(4, dtype=np.int8), 2, axis=1) * np.int8(3)
    return _two_layer_program(config, first, second)


def _two_layer_program(config: Config, first: np.ndarray, second: np.ndarray) -> Program:
    packing = Packing.of((1, 4, 1, 1), "int8", config)
    unit = Quantization((0.5,), (0,))
    quantized = TensorType("int8", (1, 4), unit)
    parameters = encode_parameters(np.zeros(4, np.int64), np.full(4, 1 << 20), np.full(4, 20))
    uop = encode_uops([Uop(dst=0, src=0, weight=0, first=1)])
    pages = [first.reshape(-1), second.reshape(-1), parameters.view(np.uint8), uop.view(np.uint8)]
    constants = np.concatenate([np.pad(p.view(np.uint8), (0, 4096 - p.nbytes)) for p in pages])
    tensors = (
        Tensor("x", quantized, Placement(Segment.INPUT, 0, 0, packing)),
        Tensor("q", quantized, Placement(Segment.WORKSPACE, 0, 4096, packing)),
        Tensor("y", quantized, Placement(Segment.OUTPUT, 0, 0, packing)),
        Tensor("real", TensorType("float32", (1, 4))),
    )
    constant = {"segment": Segment.CONSTANTS}
    code = [
        isa.Load(memory=Memory.UOP, offset=3 * 4096, **constant),
        isa.Load(memory=Memory.PARAMETER, offset=2 * 4096, **constant),
        isa.Load(memory=Memory.WEIGHT, offset=0, **constant),
        isa.Load(memory=Memory.INPUT, segment=Segment.INPUT, push_next=1),
        isa.Gemm(overwrite=1, pop_previous=1, push_next=1),
        isa.Store(segment=Segment.WORKSPACE, pop_previous=1, push_next=1),
        isa.Load(memory=Memory.WEIGHT, offset=4096, pop_previous=1, **constant),
        isa.Load(memory=Memory.INPUT, segment=Segment.WORKSPACE, push_next=1),
        isa.Gemm(overwrite=1, pop_previous=1, push_next=1),
        isa.Store(segment=Segment.OUTPUT, pop_previous=1, push_previous=1),
        isa.Finish(pop_next=1),
    ]
    layers = (
        Layer("first", "MatMul", "accelerator", "fits", ("first",), 16, 3, "read"),
        Layer("second", "MatMul", "accelerator", "fits", ("second",), 16, 3, "read"),
        Layer(
            "dequantize", "DequantizeLinear", "cpu", "no lowering", ("dequantize",), 0, 0, "none"
        ),
    )
    return Program(
        name="two_layers",
        config=config,
        inputs=("x",),
        outputs=("y", "real"),
        tensors=tensors,
        layers=layers,
        steps=(
            Pack("x"),
            Invoke("main", 0, len(code)),
            Unpack("y"),
            HostCall(2, "DequantizeLinear", ("y",), ("real",)),
        ),
        code=encode(code),
        layer_of=np.array([0, 0, 0, 0, 0, 0, 1, 1, 1, 1, -1], np.int32),
        tensor_of=np.array([-1, -1, -1, 0, -1, 1, -1, 1, -1, 2, -1], np.int32),
        constants=constants,
        host_constants={},
        segment_bytes={
            Segment.CODE: len(code) * isa.INSTRUCTION_BYTES,
            Segment.CONSTANTS: constants.size,
            Segment.WORKSPACE: 4096,
            Segment.INPUT: 4096,
            Segment.OUTPUT: 4096,
        },
        distinct_workspace_bytes=8192,
        floor_cycles=5,
    )
