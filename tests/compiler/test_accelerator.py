"""The lowering's parts: folding, transfers, uop memory, tokens, the deadlock check."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from tilewright.compiler.backends.accelerator.constants import ConstantPool
from tilewright.compiler.backends.accelerator.deadlock import check_deadlock
from tilewright.compiler.backends.accelerator.fold import FoldAxis, fold
from tilewright.compiler.backends.accelerator.task import DramAccess, ScratchpadAccess, Task
from tilewright.compiler.backends.accelerator.tokens import add_tokens
from tilewright.compiler.backends.accelerator.transfers import Dim, load_blocks, store_blocks
from tilewright.compiler.backends.accelerator.uop_memory import UopMemory
from tilewright.hw import isa
from tilewright.hw.config import Config
from tilewright.hw.errors import CompileError
from tilewright.hw.isa import Memory, Segment

CONFIG = Config.preset("tiny")


def visited(axes: list[FoldAxis], max_uops: int) -> list[tuple[int, int]]:
    """Every (dst, src) of the folded instructions, in the order of the machine."""
    folded = fold(axes, max_uops=max_uops)
    offsets, _ = folded.uop_offsets(2)
    seen = []
    for base, _ in folded.bases(2):
        for index in itertools.product(*(range(a.extent) for a in folded.loops)):
            steps = list(zip(index, folded.loops, strict=True))
            moved = [base[k] + sum(i * a.strides[k] for i, a in steps) for k in range(2)]
            seen += [
                (moved[0] + int(dst), moved[1] + int(src))
                for dst, src in zip(*offsets, strict=True)
            ]
    return seen


@pytest.mark.parametrize("max_uops", [1, 4, 64])
def test_folding_visits_every_iteration_once(max_uops: int) -> None:
    axes = [
        FoldAxis(3, (20, 100), reduces=False),
        FoldAxis(5, (0, 7), reduces=True),
        FoldAxis(4, (5, 20), reduces=False),
        FoldAxis(5, (1, 3), reduces=False),
        FoldAxis(2, (0, 1), reduces=True),
    ]
    expected = [
        tuple(sum(i * a.strides[k] for i, a in zip(index, axes, strict=True)) for k in range(2))
        for index in itertools.product(*(range(a.extent) for a in axes))
    ]
    assert sorted(visited(axes, max_uops)) == sorted(expected)


def test_loops_that_step_on_from_each_other_merge() -> None:
    folded = fold([FoldAxis(4, (10, 20), False), FoldAxis(10, (1, 2), False)], max_uops=8)
    assert folded.loops == (FoldAxis(40, (1, 2), False),)


def test_rows_that_are_adjacent_load_as_one() -> None:
    (block,) = load_blocks([Dim(8, 4, 1), Dim(6, 32, 8)], 4)
    assert (block.x.count, block.y.count, block.z.count) == (48, 1, 1)


def test_pads_go_to_the_sides_of_x_and_y() -> None:
    dims = [Dim(2, 4, 1), Dim(8, 8, 2, before=1), Dim(6, 64, 18, before=2, after=1)]
    (block,) = load_blocks(dims, 4)
    assert (block.x.before, block.x.count, block.x.after) == (2, 16, 0)
    assert (block.y.before, block.y.count, block.y.after) == (2, 6, 1)


def test_pads_that_no_field_holds_are_refused() -> None:
    with pytest.raises(CompileError, match="padded by more than 255 tiles"):
        list(load_blocks([Dim(8, 4, 1), Dim(8, 64, 8, before=300)], 4))


def test_parameters_repeat_along_a_row_of_sub_tiles() -> None:
    dims = [Dim(4, 4, 1, parameter=1), Dim(5, 16, 4), Dim(3, 400, 20, parameter=4)]
    (block,) = store_blocks(dims, 4)
    assert (block.x, block.y.count, block.z.count, block.log2_period) == (20, 1, 3, 2)


def test_a_row_of_channels_takes_one_parameter_each() -> None:
    dims = [Dim(3, 4, 1, parameter=1), Dim(5, 12, 3)]
    (block,) = store_blocks(dims, 4)
    assert (block.x, block.y.count, block.log2_period) == (3, 5, 2)


def task(instruction: isa.Instruction, *accesses: tuple[Memory, int, int, bool]) -> Task:
    found = tuple(ScratchpadAccess(*access) for access in accesses)
    return Task(instruction, found, 0)


def load(start: int) -> Task:
    return task(isa.Load(memory=Memory.INPUT), (Memory.INPUT, start, 4, True))


def gemm(start: int, dst: int) -> Task:
    reads = (Memory.INPUT, start, 4, False)
    return task(isa.Gemm(), reads, (Memory.ACCUMULATOR, dst, 4, True))


def store(dst: int) -> Task:
    return task(isa.Store(raw=1), (Memory.ACCUMULATOR, dst, 4, False))


def tokens_of(tasks: list[Task]) -> list[tuple[int, int, int, int]]:
    done = add_tokens(tasks, CONFIG, {})
    return [
        (i.pop_previous, i.pop_next, i.push_previous, i.push_next)
        for i in (t.instruction for t in done)
    ]


def test_a_chain_of_true_dependencies_passes_one_token_on() -> None:
    assert tokens_of([load(0), gemm(0, 0), store(0)]) == [
        (0, 0, 0, 1),
        (1, 0, 0, 1),
        (1, 0, 0, 0),
    ]


def test_overwriting_waits_for_the_last_reader() -> None:
    tokens = tokens_of([load(0), gemm(0, 0), load(0), gemm(0, 4)])
    assert tokens[1] == (1, 0, 1, 0)
    assert tokens[2] == (0, 1, 0, 1)


def test_what_is_already_known_costs_no_token() -> None:
    tokens = tokens_of([load(0), load(4), gemm(4, 0), gemm(0, 0)])
    assert tokens == [(0, 0, 0, 0), (0, 0, 0, 1), (1, 0, 0, 0), (0, 0, 0, 0)]


def test_compute_goes_on_once_a_store_has_read() -> None:
    done = add_tokens([gemm(0, 0), store(0), gemm(0, 0)], CONFIG, {})
    instruction = done[1].instruction
    assert isinstance(instruction, isa.Store)
    assert (instruction.push_previous, instruction.early) == (1, 1)


def test_a_token_for_reading_does_not_say_that_writes_have_arrived() -> None:
    written = isa.Store(raw=1, segment=Segment.WORKSPACE)
    from_workspace = isa.Load(memory=Memory.INPUT, segment=Segment.WORKSPACE)
    tasks = [
        replace(store(0), instruction=written),
        gemm(0, 0),
        replace(load(0), instruction=from_workspace),
    ]
    rows = tuple(workspace_row(write=write) for write in (True, False))
    tasks[0] = replace(tasks[0], accesses=(*tasks[0].accesses, rows[0]))
    tasks[2] = replace(tasks[2], accesses=(*tasks[2].accesses, rows[1]))
    done = add_tokens(tasks, CONFIG, {Segment.WORKSPACE: 4096})
    assert done[0].instruction.push_next == 1
    assert done[2].instruction.pop_previous == 1


def workspace_row(*, write: bool) -> DramAccess:
    return DramAccess(Segment.WORKSPACE, 0, 64, 1, 0, 1, 0, write=write)


def test_uop_lists_that_do_not_fit_load_in_phases() -> None:
    pool = ConstantPool()
    depth = CONFIG.depths()["uop"]
    lists = [np.arange(depth // 4, dtype=np.uint64) + 1000 * i for i in range(8)]
    tasks = [Task(isa.Gemm(uop_count=len(u)), (), 0, uops=u) for u in lists]
    placed = UopMemory(CONFIG, pool).place(tasks)
    loads = [t.instruction for t in placed if isinstance(t.instruction, isa.Load)]
    assert [i.x for i in loads] == [depth // 2] * 4
    assert [i.scratchpad for i in loads] == [0, depth // 2] * 2


def test_equal_uop_lists_share_a_place() -> None:
    words = np.arange(4, dtype=np.uint64)
    tasks = [Task(isa.Gemm(uop_count=4), (), 0, uops=words.copy()) for _ in range(3)]
    placed = UopMemory(CONFIG, ConstantPool()).place(tasks)
    assert len(placed) == 4
    assert {t.instruction.uop_begin for t in placed[1:]} == {0}


def test_the_deadlock_check_names_what_waits() -> None:
    with pytest.raises(CompileError, match="the load engine waits for ever at `load   <n"):
        check_deadlock([isa.Load(pop_next=1), isa.Finish()], CONFIG)


def test_the_deadlock_check_finds_tokens_that_are_left() -> None:
    with pytest.raises(CompileError, match="LOAD to COMPUTE"):
        check_deadlock([isa.Load(push_next=1), isa.Finish()], CONFIG)


def test_the_deadlock_check_finds_queues_that_block_each_other() -> None:
    waiting = [isa.Gemm(pop_previous=1)] * (CONFIG.queue_depth + 1)
    giving = [isa.Load(push_next=1)] * (CONFIG.queue_depth + 1)
    with pytest.raises(CompileError, match="compute engine waits for ever"):
        check_deadlock([*waiting, *giving, isa.Finish()], CONFIG)
    check_deadlock([*giving, *waiting, isa.Finish()], CONFIG)
