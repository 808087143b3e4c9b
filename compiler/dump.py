"""The readable text of every stage, for `--dump`."""

from collections.abc import Mapping
from pathlib import Path

from tilewright.compiler.ir.graph import Graph
from tilewright.compiler.partition.placement import Placed
from tilewright.hw.encoding import decode, disassemble
from tilewright.runtime.program import Program, write_whole


def write(folder: Path, graph: Graph, placed: Mapping[str, Placed], program: Program) -> None:
    """Write graph, placement, loops, memory plan and instructions, a file each.

    Raises:
        ModelError: the folder is missing or cannot be written.
    """
    texts = {
        "1_graph.txt": str(graph),
        "2_placement.txt": "\n".join(
            f"{p.node.name}: {p.node.op} on {p.target}: {p.reason}" for p in placed.values()
        ),
        "3_loops.txt": "\n\n".join(str(p.kernel) for p in placed.values() if p.kernel),
        "4_memory.txt": _memory(program),
        "5_instructions.txt": _instructions(program),
    }
    for name, text in texts.items():
        write_whole(folder / name, f"{text}\n".encode())


def _memory(program: Program) -> str:
    lines = [f"{s.name.lower()}: {size} bytes" for s, size in program.segment_bytes.items()]
    for tensor in program.tensors:
        place = tensor.placement
        where = f"{place.segment.name.lower()}+{place.offset}" if place else "host"
        lines.append(f"{tensor.name}: {tensor.type} at {where}")
    return "\n".join(lines)


def _instructions(program: Program) -> str:
    lines, layer = [], None
    for index, task in enumerate(decode(program.code)):
        number = int(program.layer_of[index])
        if number != layer:
            layer = number
            lines.append(f"# {program.layers[number].name}" if number >= 0 else "#")
        lines.append(f"{index:6d}  {disassemble(task)}")
    return "\n".join(lines)
