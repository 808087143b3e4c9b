"""The RTL engine itself: results, spans, counters, and every way in which a run fails."""

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from tilewright.hw import registers, verilog
from tilewright.hw.config import Config
from tilewright.hw.encoding import encode
from tilewright.hw.errors import DeviceError, SimulationError
from tilewright.hw.isa import Finish, Gemm, Instruction, Load, Memory, Segment, Store
from tilewright.runtime.device import RunResult
from tilewright.sim.functional import FunctionalEngine
from tilewright.sim.memory import MemoryModel
from tilewright.sim.random_programs import random_program
from tilewright.sim.rtl import build as build_module
from tilewright.sim.rtl.build import build
from tilewright.sim.rtl.engine import RtlEngine

TINY = Config.preset("tiny")
SEGMENT_BYTES = 4096


def segments_of(code: list[Instruction]) -> dict[Segment, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        Segment.CODE: encode(code).reshape(-1).copy(),
        Segment.CONSTANTS: np.zeros(SEGMENT_BYTES, np.uint8),
        Segment.WORKSPACE: np.zeros(SEGMENT_BYTES, np.uint8),
        Segment.INPUT: rng.integers(0, 256, SEGMENT_BYTES, dtype=np.uint8),
        Segment.OUTPUT: np.zeros(SEGMENT_BYTES, np.uint8),
    }


def copy_tiles() -> list[Instruction]:
    """Eight accumulators from INPUT to OUTPUT."""
    return [
        Load(memory=Memory.ACCUMULATOR, segment=Segment.INPUT, x=8, push_previous=1),
        Store(segment=Segment.OUTPUT, x=8, raw=1, pop_next=1, push_previous=1),
        Finish(pop_next=1),
    ]


@pytest.fixture(scope="module")
def engine() -> RtlEngine:
    return RtlEngine(TINY)


def check_accounting(result: RunResult, num_instructions: int) -> None:
    """Spans lie in the run and are in order; the causes of every engine add up to it."""
    counters, spans = result.counters, result.spans
    assert counters is not None
    assert spans is not None
    assert spans.shape == (num_instructions, 2)
    assert spans.min() >= 0
    assert spans.max() == counters.cycles - 1 == spans[-1, 1]
    assert (spans[:, 0] < spans[:, 1]).all()
    assert counters.instructions == num_instructions
    for engine in registers.ENGINES:
        assert sum(counters.engines[engine].values()) == counters.cycles, engine


def test_a_program_moves_data_and_every_cycle_is_accounted_for(engine: RtlEngine) -> None:
    segments = segments_of(copy_tiles())
    result = engine.run(segments)
    size = 8 * TINY.accumulator_tile_bytes
    assert (segments[Segment.OUTPUT][:size] == segments[Segment.INPUT][:size]).all()
    assert not segments[Segment.OUTPUT][size:].any()
    assert result.counters is not None
    assert result.counters.bytes_written == size
    check_accounting(result, 3)


def test_every_run_starts_anew(engine: RtlEngine) -> None:
    jittery = RtlEngine(TINY, MemoryModel.parse("jitter=30:5,refresh=100:20"))
    for device in (engine, jittery):
        first, second = (device.run(segments_of(copy_tiles())) for _ in range(2))
        assert first.counters == second.counters
        assert (first.spans == second.spans).all()


def test_time_does_not_depend_on_what_scratchpads_held(engine: RtlEngine) -> None:
    program = random_program(TINY, np.random.default_rng(3))
    results = [engine.run(program.copy_segments())]
    results.append(RtlEngine(TINY, seed=77).run(program.copy_segments()))
    assert results[0].counters == results[1].counters


def test_a_slower_memory_takes_longer(engine: RtlEngine) -> None:
    slow = RtlEngine(TINY, MemoryModel.parse("latency=200,beats=1/4"))
    cycles = [device.run(segments_of(copy_tiles())).counters for device in (engine, slow)]
    assert cycles[0] is not None
    assert cycles[1] is not None
    assert cycles[1].cycles > cycles[0].cycles + 2 * 180


def test_progress_is_reported() -> None:
    seen: list[tuple[int, int]] = []
    device = RtlEngine(TINY, progress=lambda cycles, retired: seen.append((cycles, retired)))
    result = device.run(segments_of(copy_tiles()))
    assert result.counters is not None
    assert seen[-1][0] >= result.counters.cycles
    assert seen[-1][1] == 3


def test_a_missing_token_is_reported_with_each_engine(engine: RtlEngine) -> None:
    code = [Load(memory=Memory.INPUT, segment=Segment.INPUT, pop_next=1), Finish(pop_next=1)]
    with pytest.raises(SimulationError) as error:
        engine.run(segments_of(code))
    assert str(error.value).startswith("rtl engine: nothing moved for ")
    assert str(error.value).endswith(
        "; load waits to take instruction 0 (load   <n memory=input segment=input);"
        " compute waits to take instruction 1 (finish <n); store has retired all 0 instructions"
    )
    assert engine.run(segments_of(copy_tiles())).counters is not None


def test_code_without_finish_is_reported(engine: RtlEngine) -> None:
    with pytest.raises(SimulationError, match="has retired all 1 instructions; compute has"):
        engine.run(segments_of([Load(memory=Memory.INPUT, segment=Segment.INPUT)]))


def test_an_access_outside_its_segment_is_reported(engine: RtlEngine) -> None:
    code = [
        Load(memory=Memory.INPUT, segment=Segment.INPUT, push_next=1),
        Finish(pop_previous=1),
    ]
    code.insert(0, Load(memory=Memory.INPUT, segment=Segment.INPUT, offset=SEGMENT_BYTES))
    with pytest.raises(SimulationError) as error:
        engine.run(segments_of(code))
    assert str(error.value).startswith(
        "load: instruction 0 (load   memory=input segment=input offset=4096) stopped the machine"
        " about cycle "
    )
    assert str(error.value).endswith(": read outside its segment")


def test_a_store_outside_its_segment_is_reported(engine: RtlEngine) -> None:
    code = copy_tiles()
    code[1] = Store(
        segment=Segment.OUTPUT, offset=SEGMENT_BYTES, raw=1, pop_next=1, push_previous=1
    )
    with pytest.raises(SimulationError, match=r"store: instruction 1 .*write outside its segment"):
        engine.run(segments_of(code))


def test_an_illegal_opcode_is_reported(engine: RtlEngine) -> None:
    segments = segments_of(copy_tiles())
    segments[Segment.CODE][64:] = 0
    with pytest.raises(SimulationError) as error:
        engine.run(segments)
    assert str(error.value).startswith(f"fetch: instruction 2 (0x{0:064x}) stopped the machine")
    assert str(error.value).endswith(": illegal opcode")


def test_a_cut_off_instruction_is_reported(engine: RtlEngine) -> None:
    segments = segments_of(copy_tiles())
    segments[Segment.CODE] = segments[Segment.CODE][:-1]
    with pytest.raises(SimulationError) as error:
        engine.run(segments)
    assert str(error.value) == (
        "code: 95 bytes are not a multiple of 32; an instruction is cut off"
    )


def test_waveforms_are_written(tmp_path: Path) -> None:
    path = tmp_path / "run.vcd"
    RtlEngine(TINY, vcd=path).run(segments_of(copy_tiles()))
    text = path.read_text()
    assert "$enddefinitions" in text
    assert "m_axi_araddr" in text


def test_an_unwritable_waveform_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "run.vcd"
    with pytest.raises(DeviceError) as error:
        RtlEngine(TINY, vcd=path)
    assert str(error.value) == (
        f"rtl engine: {path}: cannot write the waveform file; check the folder"
    )


def test_a_missing_compiler_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DeviceError) as error:
        build(TINY, cache=tmp_path)
    assert str(error.value) == (
        "rtl engine: no C++ compiler found (c++, g++, clang++), which builds the simulator of the"
        " RTL; get one with: apt-get install g++ make"
    )


def test_a_failing_compiler_is_one_line_and_leaves_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler = tmp_path / "bin" / "c++"
    compiler.parent.mkdir()
    compiler.write_text(
        "#!/bin/sh\n[ $1 = --version ] && exit 0\n"
        "echo unit.cpp: In function f:; echo unit.cpp:7: error: no space >&2; exit 3\n"
    )
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{compiler.parent}{os.pathsep}{os.environ['PATH']}")
    cache = tmp_path / "cache"
    with pytest.raises(DeviceError) as error:
        build(TINY, cache=cache)
    (log,) = cache.glob("*/build.log")
    assert str(error.value) == (
        "rtl engine: c++ failed with status 3 for config tiny: unit.cpp:7: error: no space;"
        f" the full log is {log}"
    )
    assert "In function f" in log.read_text()
    assert {path.name for path in log.parent.iterdir()} == {"build.log", "lock"}


def test_building_is_shown_only_while_it_lasts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []

    @contextmanager
    def building() -> Iterator[None]:
        shown.append("begins")
        yield
        shown.append("ends")

    def make(work: Path) -> Path:
        shown.append("builds")
        (work / "made").write_text("")
        return work / "made"

    monkeypatch.setattr(build_module._Build, "run", lambda self: make(self._work))
    for _ in range(2):
        build(TINY, cache=tmp_path, building=building())
    assert shown == ["begins", "builds", "ends"]


def test_a_damaged_library_and_what_a_killed_build_left_are_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(work: Path) -> Path:
        (work / "made").write_text("library")
        return work / "made"

    monkeypatch.setattr(build_module._Build, "run", lambda self: make(self._work))
    library = build(TINY, cache=tmp_path)
    for damage in ("", "lib"):
        library.write_text(damage)
        (library.parent / "build-killed").mkdir()
        assert build(TINY, cache=tmp_path).read_text() == "library"
        names = {path.name for path in library.parent.iterdir()}
        assert names == {"lock", library.name, f"{library.name}.sha256"}


def test_a_library_that_cannot_be_loaded_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(work: Path) -> Path:
        (work / "made").write_text("of another machine")
        return work / "made"

    monkeypatch.setattr(build_module._Build, "run", lambda self: make(self._work))
    with pytest.raises(DeviceError, match=r"cannot be loaded \(.*\); remove "):
        RtlEngine(TINY, cache=tmp_path)


def test_an_unwritable_cache_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DeviceError, match=r"cannot write .*file.*; choose another cache folder"):
        build(TINY, cache=tmp_path / "file")


def test_two_processes_share_one_build(tmp_path: Path) -> None:
    """They begin together; what they build is a stand-in that takes its time."""
    program = """
import sys, time
from pathlib import Path
from tilewright.hw.config import Config
from tilewright.sim.rtl import build as module

def run(build):
    print("builds")
    made = build._work / "made"
    time.sleep(0.5)
    made.write_text("library")
    return made

module._Build.run = run
sys.stdin.readline()
print(module.build(Config.preset("tiny"), cache=Path(sys.argv[1])).read_text())
"""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", program, str(tmp_path)]
    started = [subprocess.Popen(command, cwd=tmp_path, **pipes) for _ in range(2)]
    for process in started:
        process.stdin.write("go on\n")
        process.stdin.flush()
    printed = "".join(process.communicate(timeout=60)[0] for process in started)
    assert sorted(printed.split()) == ["builds", "library", "library"]
    assert [process.returncode for process in started] == [0, 0]


def test_the_name_of_a_config_is_no_part_of_its_build() -> None:
    assert build(TINY) == build(TINY.replace(name="other", clock_mhz=7))


def test_an_interrupt_from_the_keyboard_stops_a_run(engine: RtlEngine) -> None:
    # Whoever starts the tests in the background may have had interrupts ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    endless = [Gemm(extent_0=65535, extent_1=65535, extent_2=65535, uop_count=1), Finish()]
    timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        engine.run(segments_of(endless))
    assert engine.run(segments_of(copy_tiles())).counters is not None


def test_random_programs_leave_the_memory_of_the_functional_engine(engine: RtlEngine) -> None:
    for seed in range(5):
        program = random_program(TINY, np.random.default_rng(seed))
        expected, found = program.copy_segments(), program.copy_segments()
        FunctionalEngine(TINY).run(expected)
        check_accounting(engine.run(found), len(program.instructions))
        for segment in (Segment.WORKSPACE, Segment.OUTPUT):
            assert (found[segment] == expected[segment]).all(), (seed, segment)


@pytest.mark.slow
def test_a_broken_bus_master_is_reported_with_its_cycle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "rtl"
    shutil.copytree(verilog.RTL, broken)
    top = broken / "tw_top.sv"
    text = top.read_text()
    assert "INCR = 2'b01" in text
    top.write_text(text.replace("INCR = 2'b01", "INCR = 2'b10"))
    monkeypatch.setattr(verilog, "RTL", broken)
    with pytest.raises(SimulationError) as error:
        RtlEngine(TINY, cache=tmp_path).run(segments_of(copy_tiles()))
    assert re.fullmatch(
        r"rtl engine: AXI: AR burst has size 3, kind 2 in cycle \d+", str(error.value)
    )
