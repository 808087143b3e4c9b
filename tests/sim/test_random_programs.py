"""Random programs are legal, free of races and deadlock, and reach the whole ISA."""

import dataclasses
from collections import defaultdict

import numpy as np
import pytest

from tilewright.hw.config import Config
from tilewright.hw.encoding import decode, encode
from tilewright.hw.errors import SimulationError
from tilewright.hw.isa import Engine, Finish, Instruction, Segment
from tilewright.sim.coverage import POINTS, Coverage
from tilewright.sim.functional import FunctionalEngine
from tilewright.sim.functional_rules import check_legal
from tilewright.sim.random_programs import RandomProgram, Style, random_program

CONFIGS = [
    Config.preset("tiny"),
    Config(),
    Config(batch=2, block_in=8, block_out=32),
    Config(batch=4, block_in=32, block_out=8, output_lanes=8, axi_data_bits=32),
    Config.preset("large"),
]
WRITTEN = (Segment.WORKSPACE, Segment.OUTPUT)


def run(program: RandomProgram, rng: np.random.Generator | None = None) -> list[bytes]:
    segments = program.copy_segments()
    FunctionalEngine(program.config, rng=rng).run(segments)
    return [segments[segment].tobytes() for segment in WRITTEN]


@pytest.mark.parametrize("style", Style)
@pytest.mark.parametrize("config", CONFIGS, ids=range(len(CONFIGS)))
def test_results_do_not_depend_on_who_goes_first(config: Config, style: Style) -> None:
    for seed in range(5):
        program = random_program(config, np.random.default_rng(seed), style=style)
        expected = run(program)
        assert expected != [program.segments[segment].tobytes() for segment in WRITTEN]
        for order in range(3):
            assert run(program, np.random.default_rng(order)) == expected, f"seed {seed}"


def test_every_instruction_is_legal_and_survives_encoding() -> None:
    program = random_program(CONFIGS[1], np.random.default_rng(0), instructions=100)
    assert len(program.instructions) >= 100
    assert isinstance(program.instructions[-1], Finish)
    assert tuple(decode(program.segments[Segment.CODE])) == program.instructions
    assert {check_legal(i, program.config) for i in program.instructions} == {None}


def test_the_same_seed_gives_the_same_program() -> None:
    first, again, other = (
        random_program(CONFIGS[0], np.random.default_rng(seed)) for seed in (5, 5, 6)
    )
    assert first.instructions == again.instructions
    assert first.instructions != other.instructions
    for segment, data in first.segments.items():
        assert np.array_equal(data, again.segments[segment])


def without_tokens(instruction: Instruction) -> Instruction:
    return dataclasses.replace(
        instruction, pop_previous=0, pop_next=0, push_previous=0, push_next=0
    )


def test_without_its_tokens_a_program_races() -> None:
    # The tokens are not for show: random turns tell programs without them apart.
    raced = 0
    for seed in range(10):
        program = random_program(CONFIGS[0], np.random.default_rng(seed), style=Style.MIXED)
        bare = [without_tokens(instruction) for instruction in program.instructions]
        program.segments[Segment.CODE][:] = encode(bare).reshape(-1)
        try:
            raced += run(program, np.random.default_rng(0)) != run(program)
        except SimulationError:
            raced += 1
    assert raced >= 8


@pytest.mark.parametrize("seed", range(10))
def test_tokens_pair_up_in_fetch_order(seed: int) -> None:
    program = random_program(CONFIGS[seed % 3], np.random.default_rng(seed))
    tokens: dict[tuple[Engine, Engine], int] = defaultdict(int)
    for instruction in program.instructions:
        engine = instruction.ENGINE
        tokens[engine.previous, engine] -= instruction.pop_previous
        tokens[engine.next, engine] -= instruction.pop_next
        assert min(tokens.values()) >= 0
        tokens[engine, engine.previous] += instruction.push_previous
        tokens[engine, engine.next] += instruction.push_next
    assert set(tokens.values()) == {0}


def test_missing_points_are_listed() -> None:
    coverage = Coverage()
    coverage.add(CONFIGS[0], {Segment.CODE: encode([Finish(pop_next=1)]).reshape(-1)})
    assert set(coverage.missing()) == set(POINTS) - {"finish pop_next", "compute pop_next"}
    assert "  missing: load pop_previous" in coverage.summary()
