"""Programs as text and as JSON: placement, memory plan, disassembly."""

import dataclasses
from collections.abc import Iterator
from typing import Any

from tilewright.hw.encoding import decode, disassemble
from tilewright.runtime.program import HostCall, Invoke, Pack, Program, Unpack


def program_summary(program: Program) -> dict[str, Any]:
    """Return what a program is and needs, as JSON values."""
    return {
        "name": program.name,
        "config": dataclasses.asdict(program.config),
        "config_hash": f"{program.config.config_hash:016x}",
        "inputs": [{"name": n, "type": str(program.tensor(n).type)} for n in program.inputs],
        "outputs": [{"name": n, "type": str(program.tensor(n).type)} for n in program.outputs],
        "instructions": len(program.code),
        "segment_bytes": {s.name: size for s, size in program.segment_bytes.items()},
        "floor_cycles": program.floor_cycles,
        "layers": [dataclasses.asdict(layer) for layer in program.layers],
    }


def memory_plan(program: Program) -> list[dict[str, Any]]:
    """Return where every packed tensor lies, in address order."""
    rows = [
        {
            "tensor": tensor.name,
            "type": str(tensor.type),
            "segment": tensor.placement.segment.name,
            "offset": tensor.placement.offset,
            "bytes": tensor.placement.packing.num_bytes,
        }
        for tensor in program.tensors
        if tensor.placement is not None
    ]
    return sorted(rows, key=lambda row: (str(row["segment"]), row["offset"], row["tensor"]))


def disassembly(program: Program) -> list[str]:
    """Return one line an instruction: index, text, and the layer that it works for."""
    lines = []
    for index, (task, layer) in enumerate(
        zip(decode(program.code), program.layer_of.tolist(), strict=True)
    ):
        owner = f"  ; {program.layers[layer].name}" if layer >= 0 else ""
        lines.append(f"{index:5d}  {disassemble(task)}{owner}")
    return lines


def steps(program: Program) -> Iterator[str]:
    """Yield one line a step of the program, in order."""
    for step in program.steps:
        match step:
            case Pack(tensor):
                yield f"pack {tensor}"
            case Unpack(tensor):
                yield f"unpack {tensor}"
            case HostCall():
                yield f"host {step.op}({', '.join(step.inputs)}) -> {', '.join(step.outputs)}"
            case Invoke(name, first, count):
                yield f"invoke {name}: instructions {first} to {first + count - 1}"
