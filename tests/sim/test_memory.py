from fractions import Fraction

import pytest

from tilewright.hw.errors import ConfigError
from tilewright.sim.memory import (
    Direction,
    MemoryInputs,
    MemoryModel,
    MemoryTiming,
    jitter_hash,
)

EXAMPLE = "latency=20,write_latency=20,beats=1,outstanding=8,refresh=PERIOD:LENGTH,jitter=MAX:SEED"


def test_text_of_a_model_reads_back_equal() -> None:
    text = "latency=3,write_latency=5,beats=2/3,outstanding=1,refresh=100:7,jitter=9:11"
    model = MemoryModel.parse(text)
    assert model == MemoryModel(3, 5, Fraction(2, 3), 1, 100, 7, 9, 11)
    assert str(model) == text
    assert MemoryModel.parse(str(MemoryModel())) == MemoryModel.parse("") == MemoryModel()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("speed=3", f"memory 'speed=3': 'speed=3' is not known; write {EXAMPLE}"),
        ("latency", f"memory 'latency': 'latency' is not known; write {EXAMPLE}"),
        ("latency=x", f"memory 'latency=x': latency=x is malformed; write {EXAMPLE}"),
        ("beats=1/0", f"memory 'beats=1/0': beats=1/0 is malformed; write {EXAMPLE}"),
        ("refresh=5", f"memory 'refresh=5': refresh=5 is malformed; write {EXAMPLE}"),
        (
            "latency=1,latency=2",
            "memory 'latency=1,latency=2': latency is given twice; give it once",
        ),
        ("latency=0", "memory: latency=0 is not legal; choose 1 to 1048576"),
        (
            "beats=3/2",
            "memory: beats=3/2 is not legal; choose 1 or a fraction below it with a denominator"
            " of at most 65536, e.g. 1/2",
        ),
        (
            "refresh=5:5",
            "memory: refresh=5:5 is not legal; the length must be less than the period",
        ),
    ],
)
def test_bad_text_gives_one_clear_line(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        MemoryModel.parse(text)
    assert str(error.value) == message


def test_jitter_hash_is_pinned() -> None:
    assert jitter_hash(0, Direction.READ, 0) == 0xE220A8397B1DCDAF
    assert jitter_hash(7, Direction.WRITE, 12) != jitter_hash(7, Direction.READ, 12)
    most = MemoryModel(jitter=3, jitter_seed=1)
    seen = {most.jitter_of(Direction.READ, i) for i in range(100)}
    assert seen == {0, 1, 2, 3}


def read_beat_cycles(model: MemoryModel, bursts: dict[int, int], cycles: int) -> list[int]:
    """Cycles in which beats move, for bursts offered from given cycles on."""
    memory, moved, waiting = MemoryTiming(model), [], []
    for cycle in range(cycles):
        if cycle in bursts:
            waiting.append(bursts[cycle])
        outputs = memory.outputs
        if outputs.r_valid:
            moved.append(cycle)
        memory.step(MemoryInputs(ar_beats=waiting[0] if waiting else 0))
        if waiting and outputs.ar_ready:
            waiting.pop(0)
    return moved


def test_a_burst_answers_after_the_latency_at_a_beat_a_cycle() -> None:
    assert read_beat_cycles(MemoryModel(latency=5), {2: 3, 3: 2}, 30) == [7, 8, 9, 10, 11]


def test_the_next_burst_waits_for_one_of_the_outstanding() -> None:
    model = MemoryModel(latency=4, outstanding=1)
    assert read_beat_cycles(model, {0: 1, 1: 1}, 30) == [4, 9]


def test_fractional_beats_keep_their_average() -> None:
    moved = read_beat_cycles(MemoryModel(latency=1, beats=Fraction(2, 3)), {0: 200}, 400)
    assert len(moved) == 200
    assert moved[-1] - moved[0] in (298, 299)
    assert read_beat_cycles(MemoryModel(latency=1, beats=Fraction(1, 2)), {0: 3}, 9) == [1, 3, 5]


def test_a_refresh_stops_beats() -> None:
    model = MemoryModel(latency=1, refresh_period=8, refresh_length=3)
    assert read_beat_cycles(model, {3: 4}, 30) == [4, 8, 9, 10]


def test_a_write_response_follows_its_last_beat() -> None:
    memory, answered = MemoryTiming(MemoryModel(write_latency=6)), []
    for cycle in range(20):
        if memory.outputs.b_valid:
            answered.append(cycle)
        memory.step(MemoryInputs(aw_beats=2 if cycle == 0 else 0, w_valid=cycle in (1, 4)))
    assert answered == [10]
