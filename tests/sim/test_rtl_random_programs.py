"""Random programs on the RTL behind random memories leave the functional engine's bytes."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from tilewright.hw import registers
from tilewright.hw.config import Config
from tilewright.hw.encoding import disassemble
from tilewright.hw.isa import Segment
from tilewright.sim.coverage import Coverage
from tilewright.sim.functional import FunctionalEngine
from tilewright.sim.memory import MemoryModel
from tilewright.sim.random_programs import RandomProgram, random_program
from tilewright.sim.rtl.engine import RtlEngine

CONFIGS = {
    "tiny": Config.preset("tiny"),
    "default": Config(),
    "wide": Config(batch=2, block_in=4, block_out=16),
    "tall": Config(batch=4, block_in=32, block_out=8, output_lanes=8, axi_data_bits=32),
    "large": Config.preset("large"),
}
DEFAULT_CONFIGS = ("tiny", "default", "wide")
PROGRAMS_A_CONFIG = 34
PROGRAMS_A_MEMORY = 3


def random_memory(rng: np.random.Generator) -> MemoryModel:
    """The default, a fast, or any memory: random programs have to meet all three often."""
    kind = rng.integers(4)
    if kind == 0:
        return MemoryModel()
    if kind == 1:
        return MemoryModel(latency=1, write_latency=1, outstanding=32)
    period = int(rng.choice([0, 64, 300]))
    return MemoryModel(
        latency=int(rng.integers(1, 60)),
        write_latency=int(rng.integers(1, 60)),
        beats=Fraction(int(rng.integers(1, 5)), 4),
        outstanding=int(rng.integers(1, 17)),
        refresh_period=period,
        refresh_length=int(rng.integers(0, period // 2)) if period else 0,
        jitter=int(rng.choice([0, 3, 50])),
        jitter_seed=int(rng.integers(0, 1 << 32)),
    )


def check_program(program: RandomProgram, engine: RtlEngine, label: str) -> None:
    expected, found = program.copy_segments(), program.copy_segments()
    model = FunctionalEngine(program.config).run(expected)
    result = engine.run(found)
    for segment in (Segment.WORKSPACE, Segment.OUTPUT):
        differs = np.flatnonzero(found[segment] != expected[segment])
        listing = "\n".join(f"{i}: {disassemble(x)}" for i, x in enumerate(program.instructions))
        assert not differs.size, (
            f"{label}: {differs.size} bytes of {segment.name} differ, the first at {differs[:1]}"
            f"\n{listing}"
        )
    assert (result.bytes_read, result.bytes_written) == (model.bytes_read, model.bytes_written)
    counters, spans = result.counters, result.spans
    assert counters is not None
    assert spans is not None
    assert (spans[:, 0] <= spans[:, 1]).all()
    assert spans.min() >= 0
    assert spans.max() == counters.cycles - 1
    assert counters.instructions == len(program.instructions)
    for engine_name in registers.ENGINES:
        assert sum(counters.engines[engine_name].values()) == counters.cycles, engine_name


def default_seeds(name: str) -> range:
    first = DEFAULT_CONFIGS.index(name) * PROGRAMS_A_CONFIG
    return range(first, first + PROGRAMS_A_CONFIG)


def check_programs(name: str, seeds: range) -> None:
    config = CONFIGS[name]
    for first in seeds[::PROGRAMS_A_MEMORY]:
        memory = random_memory(np.random.default_rng(first))
        engine = RtlEngine(config, memory, seed=first + 1)
        for seed in range(first, min(first + PROGRAMS_A_MEMORY, seeds.stop)):
            program = random_program(config, np.random.default_rng(seed))
            check_program(program, engine, f"{name}, seed {seed}, memory {memory}")


@pytest.mark.parametrize("name", DEFAULT_CONFIGS)
def test_random_programs_agree(name: str) -> None:
    check_programs(name, default_seeds(name))


def test_random_programs_reach_the_whole_isa(
    record_property: Callable[[str, object], None],
) -> None:
    """The programs of the test above: what they hold is a matter of their seeds alone."""
    coverage = Coverage()
    for name in DEFAULT_CONFIGS:
        for seed in default_seeds(name):
            program = random_program(CONFIGS[name], np.random.default_rng(seed))
            coverage.add(CONFIGS[name], program.segments)
    record_property("coverage", coverage.summary())
    assert coverage.missing() == []


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_many_random_programs_agree(name: str) -> None:
    check_programs(name, range(1000, 1126))
