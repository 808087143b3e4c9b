"""A static check that a program's queues and tokens always move on to FINISH."""

from collections import deque
from collections.abc import Sequence

from tilewright.hw.config import Config
from tilewright.hw.encoding import disassemble
from tilewright.hw.errors import CompileError
from tilewright.hw.isa import Engine, Finish, Instruction


def check_deadlock(code: Sequence[Instruction], config: Config) -> None:
    """Run queues and tokens without time or data.

    Tokens only add up and engines only take their own, so whatever can move stays able to:
    one order of moves is as good as every other.

    Raises:
        CompileError: an instruction that waits for ever, tokens that are left, a FINISH that
            is missing or not the last instruction.
    """
    if not code or not isinstance(code[-1], Finish):
        raise CompileError("deadlock check: the last instruction is not FINISH")
    queues: dict[Engine, deque[Instruction]] = {engine: deque() for engine in Engine}
    tokens = {(a, b): 0 for a in Engine for b in Engine if a is not b}
    fetched, moved = 0, True
    while moved:
        moved = False
        while fetched < len(code) and len(queues[code[fetched].ENGINE]) < config.queue_depth:
            queues[code[fetched].ENGINE].append(code[fetched])
            fetched += 1
            moved = True
        for engine, queue in queues.items():
            while queue and _take(queue[0], engine, tokens):
                queue.popleft()
                moved = True
    for engine, queue in queues.items():
        if queue:
            raise CompileError(
                f"deadlock check: the {engine.name.lower()} engine waits for ever at"
                f" `{disassemble(queue[0])}`"
            )
    left = {f"{a.name} to {b.name}": n for (a, b), n in tokens.items() if n}
    if left or fetched < len(code):
        raise CompileError(f"deadlock check: tokens left at FINISH: {left}")


def _take(
    instruction: Instruction, engine: Engine, tokens: dict[tuple[Engine, Engine], int]
) -> bool:
    pops = []
    if instruction.pop_previous:
        pops.append((engine.previous, engine))
    if instruction.pop_next:
        pops.append((engine.next, engine))
    if any(tokens[direction] == 0 for direction in pops):
        return False
    for direction in pops:
        tokens[direction] -= 1
    if instruction.push_previous:
        tokens[engine, engine.previous] += 1
    if instruction.push_next:
        tokens[engine, engine.next] += 1
    return True
