"""The compiler's stages in order: place, schedule, plan memory, lower, assemble the program."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tilewright.compiler.backends.accelerator.constants import ConstantPool
from tilewright.compiler.backends.accelerator.generate import LayerKernel, generate
from tilewright.compiler.backends.accelerator.task import DramPlace, Task
from tilewright.compiler.bounds import Bound, floor_cycles, node_bounds
from tilewright.compiler.ir.graph import Graph, Node
from tilewright.compiler.ir.graph import verify as verify_graph
from tilewright.compiler.ir.loops import Declined, Kernel
from tilewright.compiler.ir.loops import verify as verify_kernel
from tilewright.compiler.partition.layouts import assign_layouts
from tilewright.compiler.partition.memory import MemoryPlan, Runs, plan_memory
from tilewright.compiler.partition.placement import CPU, Placed, order_nodes, place
from tilewright.compiler.schedule.templates import build_kernel
from tilewright.hw.config import Config
from tilewright.hw.encoding import decode, disassemble, encode
from tilewright.hw.isa import INSTRUCTION_BYTES, Segment
from tilewright.runtime.files import make_folder, write_whole
from tilewright.runtime.program import (
    HostCall,
    Invoke,
    Layer,
    Pack,
    Program,
    Step,
    Tensor,
    Unpack,
)


def compile_graph(
    graph: Graph, config: Config, *, model: bytes = b"", dump: Path | None = None
) -> Program:
    """Return the program of a canonical graph with static shapes, for a config.

    `model` is kept in the program; `dump` is a folder for the readable text of every stage.

    Raises:
        ModelError: the graph breaks a rule, or a dimension is not bound.
        CompileError: a part of it does not fit the machine.
    """
    verify_graph(graph)
    graph = assign_layouts(graph, config)
    placed = place(
        graph,
        config,
        lambda node, host_packs: _checked(build_kernel(graph, node, config, host_packs=host_packs)),
    )
    runs = order_nodes(graph, placed)
    plan = plan_memory(graph, placed, runs, config)
    assembly = _Assembly(graph, config, placed, plan, node_bounds(graph, config))
    program = assembly.program(runs, model)
    if dump is not None:
        _dump(dump, graph, placed, program)
    return program


def _checked(kernel: Kernel | Declined) -> Kernel | Declined:
    if isinstance(kernel, Kernel):
        verify_kernel(kernel)
    return kernel


@dataclass(slots=True)
class _Assembly:
    """A program in the making."""

    graph: Graph
    config: Config
    placed: Mapping[str, Placed]
    plan: MemoryPlan
    bounds: Mapping[str, Bound]
    layers: list[Layer] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    constants: ConstantPool = field(default_factory=ConstantPool)
    on_machine: set[str] = field(default_factory=set)

    def program(self, runs: Runs, model: bytes) -> Program:
        tensors = self._tensors()
        index = {tensor.name: i for i, tensor in enumerate(tensors)}
        for target, nodes in runs:
            first = len(self.layers)
            self.layers += [self._layer(node) for node in nodes]
            if target == CPU:
                self.steps += [
                    HostCall(first + i, n.op, n.inputs, n.outputs, n.attributes)
                    for i, n in enumerate(nodes)
                ]
            else:
                self._region(nodes, first, index)
        instructions = [task.instruction for task in self.tasks]
        constants = self.constants.segment()
        return Program(
            name=self.graph.name,
            config=self.config,
            inputs=self.graph.input_names,
            outputs=self.graph.output_names,
            tensors=tensors,
            layers=tuple(self.layers),
            steps=tuple(self.steps),
            code=encode(instructions),
            layer_of=np.array([task.layer for task in self.tasks], np.int32),
            tensor_of=np.array([task.tensor for task in self.tasks], np.int32),
            constants=constants,
            host_constants={name: self.graph.constants[name] for name in self._host_constants()},
            segment_bytes={
                Segment.CODE: len(instructions) * INSTRUCTION_BYTES,
                Segment.CONSTANTS: constants.size,
                **self.plan.segment_bytes,
            },
            distinct_workspace_bytes=self.plan.distinct_workspace_bytes,
            floor_cycles=floor_cycles(self.graph, self.config),
            model=model,
        )

    def _host_constants(self) -> list[str]:
        read = {
            name
            for node in self.graph.nodes
            if not self.placed[node.name].on_accelerator
            for name in node.inputs
        }
        read.update(self.graph.output_names)
        return [name for name in self.graph.constants if name in read]

    def _tensors(self) -> tuple[Tensor, ...]:
        names = [*self.graph.input_names, *self._host_constants()]
        names += [name for node in self.graph.nodes for name in node.outputs]
        return tuple(
            Tensor(name, self.graph.type(name), self.plan.placements.get(name)) for name in names
        )

    def _layer(self, node: Node) -> Layer:
        decision, bound = self.placed[node.name], self.bounds[node.name]
        return Layer(
            name=node.name,
            op=node.op,
            target=decision.target,
            reason=decision.reason,
            nodes=node.origin,
            macs=bound.macs,
            bound_cycles=bound.cycles,
            bound=bound.limit,
        )

    def _region(self, nodes: list[Node], first_layer: int, index: Mapping[str, int]) -> None:
        """Pack what the host has, invoke the machine, unpack what the host needs."""
        kernels = []
        written: list[str] = []
        for i, node in enumerate(nodes):
            written += node.outputs
            kernel = self.placed[node.name].kernel
            for name in kernel.inputs.values() if kernel else node.inputs[:1]:
                if name not in written and name not in self.on_machine:
                    self.steps.append(Pack(name))
                    self.on_machine.add(name)
            if kernel is None:
                continue
            names = [*kernel.inputs.values(), *kernel.outputs.values()]
            kernels.append(LayerKernel(kernel, first_layer + i, self._places(names, index)))
        self.on_machine.update(written)
        if kernels:
            sizes = self.plan.segment_bytes
            tasks = generate(kernels, self.config, self.constants, sizes)
            number = sum(isinstance(step, Invoke) for step in self.steps)
            self.steps.append(Invoke(f"region_{number}", len(self.tasks), len(tasks)))
            self.tasks += tasks
        self.steps += [Unpack(name) for name in written if self._host_reads(name)]

    def _places(self, names: list[str], index: Mapping[str, int]) -> dict[str, DramPlace]:
        places = {}
        for name in names:
            place = self.plan.placements[name]
            places[name] = DramPlace(place.segment, place.offset, index[name])
        return places

    def _host_reads(self, name: str) -> bool:
        if name in self.graph.output_names:
            return True
        return any(not self.placed[node.name].on_accelerator for node in self.graph.consumers(name))


def _dump(folder: Path, graph: Graph, placed: Mapping[str, Placed], program: Program) -> None:
    """Write graph, placement, loops, memory plan and instructions, a file each."""
    texts = {
        "1_graph.txt": str(graph),
        "2_placement.txt": "\n".join(
            f"{p.node.name}: {p.node.op} on {p.target}: {p.reason}" for p in placed.values()
        ),
        "3_loops.txt": "\n\n".join(str(p.kernel) for p in placed.values() if p.kernel),
        "4_memory.txt": _memory_text(program),
        "5_instructions.txt": _instructions_text(program),
    }
    make_folder(folder)
    for name, text in texts.items():
        write_whole(folder / name, f"{text}\n".encode())


def _memory_text(program: Program) -> str:
    lines = [f"{s.name.lower()}: {size} bytes" for s, size in program.segment_bytes.items()]
    for tensor in program.tensors:
        place = tensor.placement
        where = f"{place.segment.name.lower()}+{place.offset}" if place else "host"
        lines.append(f"{tensor.name}: {tensor.type} at {where}")
    return "\n".join(lines)


def _instructions_text(program: Program) -> str:
    lines, layer = [], None
    for index, task in enumerate(decode(program.code)):
        number = int(program.layer_of[index])
        if number != layer:
            layer = number
            lines.append(f"# {program.layers[number].name}" if number >= 0 else "#")
        lines.append(f"{index:6d}  {disassemble(task)}")
    return "\n".join(lines)
