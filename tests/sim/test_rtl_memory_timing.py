"""The harness's memory, compiled alone, against the reference of the model."""

import ctypes
import subprocess
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from tilewright.sim.memory import MemoryInputs, MemoryModel, MemoryTiming
from tilewright.sim.rtl.build import HARNESS
from tilewright.sim.rtl.harness import model_structure
from tilewright.sim.rtl.toolchain import find_compiler

CYCLES = 3000
SOURCE = r"""
#include "memory_timing.h"
using namespace tilewright;
extern "C" void drive(const MemoryModel* model, const int32_t* in, int32_t* out, int64_t cycles) {
    MemoryTiming memory(*model);
    memory.restart();
    for (int64_t i = 0; i < cycles; ++i, in += 5, out += 6) {
        out[0] = memory.ar_ready(), out[1] = memory.r_valid(), out[2] = memory.r_last();
        out[3] = memory.aw_ready(), out[4] = memory.w_ready(), out[5] = memory.b_valid();
        if (out[1] && in[3]) memory.take_read_beat();
        if (out[5] && in[4]) memory.take_response();
        if (out[4] && in[2]) memory.accept_write_beat();
        if (out[0] && in[0]) memory.accept_read(in[0]);
        if (out[3] && in[1]) memory.accept_write(in[1]);
        memory.tick();
    }
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    source = tmp_path_factory.mktemp("memory") / "drive.cpp"
    source.write_text(SOURCE)
    command = [find_compiler().program, "-std=c++17", "-O1", "-shared", "-fPIC", f"-I{HARNESS}"]
    built = source.with_suffix(".so")
    subprocess.run([*command, source, "-o", built], check=True)
    return ctypes.CDLL(str(built))


def random_model(rng: np.random.Generator) -> MemoryModel:
    period = int(rng.choice([0, 40, 97]))
    return MemoryModel(
        latency=int(rng.integers(1, 30)),
        write_latency=int(rng.integers(1, 30)),
        beats=Fraction(int(rng.integers(1, 5)), 4),
        outstanding=int(rng.integers(1, 6)),
        refresh_period=period,
        refresh_length=int(rng.integers(0, period)) if period else 0,
        jitter=int(rng.choice([0, 1, 17])),
        jitter_seed=int(rng.integers(0, 1 << 62)),
    )


def stimulus(rng: np.random.Generator) -> NDArray[np.int32]:
    offered = rng.integers(1, 17, (CYCLES, 5)) * (rng.random((CYCLES, 5)) < rng.random(5))
    offered[:, 2:] = offered[:, 2:] > 0
    return offered.astype(np.int32)


@pytest.mark.parametrize("seed", range(20))
def test_the_harness_memory_equals_the_reference(seed: int, library: ctypes.CDLL) -> None:
    rng = np.random.default_rng(seed)
    model, given = random_model(rng), stimulus(rng)
    seen = np.zeros((CYCLES, 6), np.int32)
    library.drive(
        ctypes.byref(model_structure(model)),
        given.ctypes.data_as(ctypes.c_void_p),
        seen.ctypes.data_as(ctypes.c_void_p),
        ctypes.c_int64(CYCLES),
    )
    memory = MemoryTiming(model)
    for cycle, (ar, aw, w, r_ready, b_ready) in enumerate(given.tolist()):
        expected = memory.outputs
        outputs = (
            expected.ar_ready,
            expected.r_valid,
            expected.r_last,
            expected.aw_ready,
            expected.w_ready,
            expected.b_valid,
        )
        assert tuple(seen[cycle]) == outputs, (str(model), cycle)
        memory.step(
            MemoryInputs(
                ar_beats=ar,
                aw_beats=aw,
                w_valid=bool(w),
                r_ready=bool(r_ready),
                b_ready=bool(b_ready),
            )
        )
