"""The lowering of kernels: loops to tasks with concrete addresses.

Outer loops are unrolled, so every copy and store has concrete indices; loops around an
intrinsic are folded into hardware loops and uops.  Each execution of an allocation takes the
buffer's next copy, which is how virtual threads take turns.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tilewright.compiler.backends.accelerator.fold import FoldAxis, Folded, fold, pack_uops
from tilewright.compiler.backends.accelerator.task import (
    Access,
    DramAccess,
    Instance,
    Places,
    ScratchpadAccess,
    Task,
    row_major,
)
from tilewright.compiler.backends.accelerator.transfers import (
    Block,
    Dim,
    StoreBlock,
    load_blocks,
    store_blocks,
)
from tilewright.compiler.ir.loops import (
    SCALING,
    Affine,
    Allocate,
    Copy,
    For,
    Intrinsic,
    Kernel,
    Operand,
    Region,
    Statement,
    Store,
)
from tilewright.hw import isa
from tilewright.hw.config import MAX_INDEX, Config
from tilewright.hw.errors import CompileError
from tilewright.hw.isa import AluOp, Memory, Segment

ELEMENTWISE = {
    "add": AluOp.ADD,
    "multiply": AluOp.MUL,
    "scale": AluOp.MUL,
    "scale_add": AluOp.MAC,
}
"""Intrinsics that visit each tile of dst once."""


def lower_kernel(
    kernel: Kernel,
    config: Config,
    places: Places,
    scratchpads: Mapping[str, tuple[int, ...]],
    layer: int,
) -> list[Task]:
    """Return a kernel's tasks in program order, uops not yet placed.

    `places` gives the place of each DRAM buffer, `scratchpads` the first tile of each copy of
    each scratchpad buffer.

    Raises:
        CompileError: a statement that no instruction can do.
    """
    lowering = _Lowering(config, places, scratchpads, layer)
    lowering.body(kernel.body, {}, ())
    return lowering.tasks


class _Lowering:
    def __init__(
        self,
        config: Config,
        places: Places,
        scratchpads: Mapping[str, tuple[int, ...]],
        layer: int,
    ) -> None:
        self.tasks: list[Task] = []
        self._config = config
        self._places = places
        self._scratchpads = scratchpads
        self._layer = layer
        self._instances: dict[str, Instance] = {}
        self._allocations: dict[str, int] = {}
        self._max_uops = config.depths()["uop"] // 2

    def body(
        self, statements: Sequence[Statement], fixed: dict[str, int], loops: tuple[str, ...]
    ) -> None:
        for statement in statements:
            match statement:
                case For(axis, extent, _, inner):
                    if intrinsic := _innermost(statement):
                        self._intrinsic(statement, intrinsic, fixed)
                        continue
                    for index in range(extent.evaluate(fixed)):
                        self.body(inner, {**fixed, axis: index}, (*loops, axis))
                case Allocate():
                    self._allocate(statement, fixed, loops)
                case Copy(once=once):
                    if not any(fixed[name] for name in once):
                        self._copy(statement, fixed)
                case Intrinsic():
                    self._intrinsic(None, statement, fixed)
                case Store():
                    self._store(statement, fixed)

    def _allocate(
        self, allocate: Allocate, fixed: Mapping[str, int], loops: tuple[str, ...]
    ) -> None:
        buffer = allocate.buffer
        count = self._allocations.get(buffer.name, 0)
        self._allocations[buffer.name] = count + 1
        copies = self._scratchpads[buffer.name]
        shape = tuple(extent.evaluate(fixed) for extent in buffer.shape)
        self._instances[buffer.name] = Instance(
            memory=Memory[buffer.scope.name],
            base=copies[count % len(copies)],
            shape=shape,
            strides=row_major(shape),
            axes=frozenset(loops),
        )

    def _instance(self, name: str) -> Instance:
        instance = self._instances.get(name)
        if instance is None:
            raise CompileError(f"lower: {name} is used before it is allocated")
        return instance

    def _copy(self, copy: Copy, fixed: Mapping[str, int]) -> None:
        instance = self._instance(copy.dst.buffer.name)
        place = self._places[copy.src.buffer.name]
        tile_bytes = self._dram_tile_bytes(instance.memory, widen=copy.widen)
        sizes = [extent.size for extent in copy.src.buffer.shape]
        strides = copy.src.buffer.strides or row_major(tuple(sizes))
        pitches = [stride * tile_bytes for stride in strides]
        offset, first, dims = place.offset, instance.base, []
        for j, extent in enumerate(copy.src.shape):
            origin, total = copy.src.origin[j].evaluate(fixed), extent.evaluate(fixed)
            step = copy.src.step[j] if copy.src.step else 1
            before = min(total, max(0, -(origin // step)))
            inside = max(0, min(total, -(-(sizes[j] - origin) // step)) - before)
            offset += (origin + before * step) * pitches[j] if inside else 0
            first += copy.dst.origin[j].evaluate(fixed) * instance.strides[j]
            dims.append(
                Dim(inside, step * pitches[j], instance.strides[j], before, total - before - inside)
            )
        for block in load_blocks(dims[::-1], tile_bytes):
            load = self._load(copy, instance.memory, place.segment, offset, first, block)
            written = ScratchpadAccess(
                instance.memory,
                load.scratchpad,
                block.x.total * block.y.total * block.z.total,
                True,
            )
            row_bytes = block.x.count * tile_bytes if block.y.count else 0
            read = _rows(place.segment, load, row_bytes, write=False)
            self.tasks.append(Task(load, (read, written), self._layer, place.tensor))

    def _dram_tile_bytes(self, memory: Memory, *, widen: bool) -> int:
        if widen:
            return self._config.output_tile_bytes
        return self._config.tile_bytes()[memory.name.lower()]

    def _load(
        self,
        copy: Copy,
        memory: Memory,
        segment: Segment,
        offset: int,
        first: int,
        block: Block,
    ) -> isa.Load:
        return isa.Load(
            memory=memory,
            segment=segment,
            offset=offset + block.dram,
            scratchpad=first + block.tiles,
            x=block.x.count,
            y=block.y.count,
            z=block.z.count,
            y_stride=block.y.dram,
            z_stride=block.z.dram,
            pad_top=block.y.before,
            pad_bottom=block.y.after,
            pad_left=block.x.before,
            pad_right=block.x.after,
            pad_value=copy.pad if memory in (Memory.INPUT, Memory.ACCUMULATOR) else 0,
            zero_point=copy.zero_point,
            flip=int(copy.flip),
            widen=int(copy.widen),
        )

    def _store(self, store: Store, fixed: Mapping[str, int]) -> None:
        source, place = self._instance(store.src.buffer.name), self._places[store.dst.buffer.name]
        raw = store.parameters is None
        config = self._config
        tile_bytes = config.accumulator_tile_bytes if raw else config.output_tile_bytes
        sizes = [extent.size for extent in store.dst.buffer.shape]
        strides = store.dst.buffer.strides or row_major(tuple(sizes))
        pitches = [stride * tile_bytes for stride in strides]
        parameter, steps = self._parameters(store.parameters, fixed)
        offset, first, dims = place.offset, source.base, []
        for j, extent in enumerate(store.dst.shape):
            origin, total = store.dst.origin[j].evaluate(fixed), extent.evaluate(fixed)
            low, high = store.clip[j] if store.clip else (0, sizes[j])
            skipped = max(0, low - origin)
            count = min(total, high - origin) - skipped
            if count <= 0:
                return
            offset += (origin + skipped) * pitches[j]
            first += (store.src.origin[j].evaluate(fixed) + skipped) * source.strides[j]
            step = steps[j] if steps else 0
            parameter += skipped * step
            dims.append(Dim(count, pitches[j], source.strides[j], parameter=step))
        for block in store_blocks(dims[::-1], tile_bytes):
            task = self._store_block(store, block, place.segment, offset, first, parameter)
            written = _rows(place.segment, task, block.x * tile_bytes, write=True)
            accesses: list[Access] = [written]
            span = (block.z.count * block.y.count - 1) * task.accumulator_row + block.x
            accesses.append(ScratchpadAccess(Memory.ACCUMULATOR, task.accumulator, span, False))
            if not raw:
                rows = min(block.x, 1 << block.log2_period)
                rows += (block.z.count - 1 << block.log2_period) if task.parameter_step else 0
                accesses.append(ScratchpadAccess(Memory.PARAMETER, task.parameter, rows, False))
            self.tasks.append(Task(task, tuple(accesses), self._layer, place.tensor))

    def _parameters(
        self, region: Region | None, fixed: Mapping[str, int]
    ) -> tuple[int, tuple[int, ...]]:
        """First parameter row, and rows from element to element in each dimension."""
        if region is None:
            return 0, ()
        instance = self._instance(region.buffer.name)
        first, steps = instance.base, []
        for origin, extent, stride in zip(
            region.origin, region.shape, instance.strides, strict=True
        ):
            first += origin.evaluate(fixed) * stride
            steps.append(stride if extent.size > 1 else 0)
        return first, tuple(steps)

    def _store_block(
        self,
        store: Store,
        block: StoreBlock,
        segment: Segment,
        offset: int,
        first: int,
        parameter: int,
    ) -> isa.Store:
        raw = store.parameters is None
        return isa.Store(
            segment=segment,
            offset=offset + block.dram,
            accumulator=first + block.tiles,
            x=block.x,
            y=block.y.count,
            z=block.z.count,
            y_stride=block.y.dram,
            z_stride=block.z.dram,
            accumulator_row=block.y.tiles,
            parameter=0 if raw else parameter + block.parameter,
            parameter_step=int(not raw and block.z.parameter > 0),
            log2_parameter_period=0 if raw else block.log2_period,
            zero_point=store.zero_point,
            low=store.low,
            high=store.high,
            raw=int(raw),
        )

    def _intrinsic(self, loop: For | None, intrinsic: Intrinsic, fixed: dict[str, int]) -> None:
        loops: list[tuple[str, int]] = []
        while loop is not None:
            loops.append((loop.axis, loop.extent.evaluate(fixed)))
            inner = loop.body[0]
            loop = inner if isinstance(inner, For) else None
        operands = (intrinsic.dst, *intrinsic.sources)
        addresses = [self._address(operand) for operand in operands]
        used = {name for index in intrinsic.dst.index for name, _ in index.terms}
        reduces = intrinsic.name in ("gemm", "gemm_add", "max")
        axes = [
            FoldAxis(
                extent, tuple(_factor(a, name) for a in addresses), reduces and name not in used
            )
            for name, extent in loops
        ]
        base = tuple(address.evaluate(fixed) for address in addresses)
        within = self._instance(intrinsic.dst.buffer.name).axes
        begun = any(i for name, i in fixed.items() if name not in within and name not in used)
        match intrinsic.name:
            case "gemm" | "gemm_add":
                self._gemm(axes, base, begun=begun or intrinsic.name == "gemm_add")
            case "max":
                self._max(axes, base, begun=begun)
            case "add" | "multiply" | "scale" | "scale_add":
                folded = fold(axes, max_uops=self._max_uops)
                immediate = intrinsic.immediate if intrinsic.name in SCALING else None
                self._alu(ELEMENTWISE[intrinsic.name], folded, base, immediate=immediate)
            case _:
                raise CompileError(f"lower: there is no intrinsic {intrinsic.name}")

    def _address(self, operand: Operand) -> Affine:
        """The operand's tile as an affine function of the axes."""
        instance = self._instance(operand.buffer.name)
        address = Affine(instance.base)
        for index, stride in zip(operand.index, instance.strides, strict=True):
            address = address + index * stride
        return address

    def _gemm(self, axes: list[FoldAxis], base: tuple[int, ...], *, begun: bool) -> None:
        folded = fold(axes, max_uops=self._max_uops)
        offsets, first = folded.uop_offsets(3)
        mask = sum(1 << i for i, a in enumerate(folded.loops) if a.reduces)
        for moved, fresh in folded.bases(3):
            dst, src, weight = (o + b + m for o, b, m in zip(offsets, base, moved, strict=True))
            gemm = isa.Gemm(
                uop_count=len(dst),
                **_loop_fields(folded, ("dst", "src", "weight")),
                overwrite=int(fresh and not begun),
                reduce_mask=mask,
            )
            uops = pack_uops(dst, src, weight, first)
            starts = (int(dst.min()), int(src.min()), int(weight.min()))
            spans = [_span(folded, k) for k in range(3)]
            accesses = (
                ScratchpadAccess(Memory.ACCUMULATOR, starts[0], spans[0], True),
                ScratchpadAccess(Memory.INPUT, starts[1], spans[1], False),
                ScratchpadAccess(Memory.WEIGHT, starts[2], spans[2], False),
            )
            self.tasks.append(Task(gemm, accesses, self._layer, uops=uops))

    def _max(self, axes: list[FoldAxis], base: tuple[int, ...], *, begun: bool) -> None:
        """Move the first element of each window, then take the maximum with the others."""
        folded = fold(axes, max_uops=self._max_uops, reductions_in_uops=True)
        if begun:
            self._alu(AluOp.MAX, folded, base)
            return
        _, first = folded.uop_offsets(2)
        self._alu(AluOp.MOV, folded, base, keep=first)
        if not first.all():
            self._alu(AluOp.MAX, folded, base, keep=~first)

    def _alu(
        self,
        op: AluOp,
        folded: Folded,
        base: tuple[int, ...],
        keep: np.ndarray[tuple[int], np.dtype[np.bool_]] | None = None,
        immediate: int | None = None,
    ) -> None:
        operands = len(base)
        offsets, first = folded.uop_offsets(operands)
        kept = np.ones_like(first) if keep is None else keep
        for moved, _ in folded.bases(operands):
            tiles = [o[kept] + b + m for o, b, m in zip(offsets, base, moved, strict=True)]
            alu = isa.Alu(
                uop_count=len(tiles[0]),
                **_loop_fields(folded, ("dst", "src")[:operands]),
                op=op,
                immediate=immediate or 0,
                use_immediate=int(immediate is not None),
            )
            accesses = tuple(
                ScratchpadAccess(Memory.ACCUMULATOR, int(t.min()), _span(folded, k), k == 0)
                for k, t in enumerate(tiles)
            )
            uops = pack_uops(tiles[0], tiles[-1], 0, 0)
            self.tasks.append(Task(alu, accesses, self._layer, uops=uops))


def _innermost(loop: For) -> Intrinsic | None:
    """The intrinsic that a perfect nest encloses, or None."""
    while len(loop.body) == 1:
        inner = loop.body[0]
        if isinstance(inner, Intrinsic):
            return inner
        if not isinstance(inner, For):
            return None
        loop = inner
    return None


def _factor(address: Affine, axis: str) -> int:
    return dict(address.terms).get(axis, 0)


def _span(folded: Folded, operand: int) -> int:
    """Tiles from the first to the last that one instruction touches; strides are positive."""
    axes = (*folded.loops, *folded.uops)
    return 1 + sum((a.extent - 1) * a.strides[operand] for a in axes)


def _loop_fields(folded: Folded, operands: tuple[str, ...]) -> dict[str, int]:
    fields = {}
    for i, loop in enumerate(folded.loops):
        fields[f"extent_{i}"] = loop.extent
        for operand, stride in zip(operands, loop.strides, strict=True):
            fields[f"{operand}_stride_{i}"] = stride % MAX_INDEX
    return fields


def _rows(
    segment: Segment, instruction: isa.Load | isa.Store, row_bytes: int, *, write: bool
) -> DramAccess:
    i = instruction
    return DramAccess(segment, i.offset, row_bytes, i.y, i.y_stride, i.z, i.z_stride, write=write)


def num_steps(instruction: isa.Gemm | isa.Alu) -> int:
    """Return how many uops an instruction issues."""
    return instruction.uop_count * math.prod(
        (instruction.extent_0, instruction.extent_1, instruction.extent_2)
    )
