"""The loop IR: a kernel as affine loop nests over buffers of tiles.

Buffers are counted in tiles of the memory they lie in.  Indices are affine in the loop axes;
an extent may be clipped by an affine limit, so that tails run fewer iterations.  Operator
templates build this IR, a back-end lowers it; neither knows the other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from tilewright.hw.errors import CompileError
from tilewright.runtime.packing import Fold

Environment = Mapping[str, int]
"""The value of each loop axis that is fixed."""


class Scope(Enum):
    """The memory a buffer lies in."""

    DRAM = "dram"
    INPUT = "input"
    WEIGHT = "weight"
    ACCUMULATOR = "accumulator"
    UOP = "uop"
    PARAMETER = "parameter"


class Kind(Enum):
    """How the iterations of a loop run."""

    SERIAL = "serial"
    UNROLL = "unroll"
    """Inside one instruction: the lowering folds it into hardware loops or uops."""
    VIRTUAL_THREAD = "virtual_thread"
    """Consecutive iterations are virtual threads: buffers allocated inside have one copy for
    each thread, so that one thread's copies overlap another's arithmetic."""


@dataclass(frozen=True, slots=True)
class Affine:
    """constant + Σ factor · axis, terms sorted by axis, no zero factor."""

    constant: int = 0
    terms: tuple[tuple[str, int], ...] = ()

    def __add__(self, other: "Affine | int") -> "Affine":
        """Return the sum."""
        if isinstance(other, int):
            return Affine(self.constant + other, self.terms)
        factors = dict(self.terms)
        for axis, factor in other.terms:
            factors[axis] = factors.get(axis, 0) + factor
        terms = tuple(sorted((axis, f) for axis, f in factors.items() if f))
        return Affine(self.constant + other.constant, terms)

    def __mul__(self, factor: int) -> "Affine":
        """Return the multiple."""
        if not factor:
            return Affine()
        return Affine(self.constant * factor, tuple((a, f * factor) for a, f in self.terms))

    def evaluate(self, environment: Environment) -> int:
        """Return the value; axes that are not fixed count as 0."""
        total = self.constant
        for axis, factor in self.terms:
            total += factor * environment.get(axis, 0)
        return total

    def __str__(self) -> str:
        """Return e.g. `4*h_o + kh - 2`."""
        parts = [axis if f == 1 else f"{f}*{axis}" for axis, f in self.terms]
        if self.constant or not parts:
            parts.append(str(self.constant))
        return " + ".join(parts).replace("+ -", "- ")


def axis(name: str, factor: int = 1) -> Affine:
    """Return factor · axis."""
    return Affine(0, ((name, factor),)) if factor else Affine()


ZERO = Affine()

SCALING = frozenset({"scale", "scale_add"})
"""Intrinsics that multiply by an immediate."""


@dataclass(frozen=True, slots=True)
class Extent:
    """A size, clipped to `limit` where it runs past an edge: min(size, limit)."""

    size: int
    limit: Affine | None = None

    def evaluate(self, environment: Environment) -> int:
        """Return the size at the given outer indices."""
        if self.limit is None:
            return self.size
        return min(self.size, self.limit.evaluate(environment))

    def __str__(self) -> str:
        """Return e.g. `4` or `min(4, 10 - 4*h_o)`."""
        return str(self.size) if self.limit is None else f"min({self.size}, {self.limit})"


def tiled(size: int, tile: int, outer: str) -> Extent:
    """Return the extent of one tile of an axis: `tile`, clipped if `size` is not a multiple."""
    return Extent(tile, axis(outer, -tile) + size) if size % tile else Extent(tile)


def fixed(*sizes: int) -> tuple[Extent, ...]:
    """Return a shape without clipping."""
    return tuple(Extent(size) for size in sizes)


@dataclass(frozen=True, slots=True)
class Buffer:
    """An array of tiles in one memory, row-major; DRAM buffers have no clipped extents.

    A DRAM buffer may have `strides` of its own, in tiles.  A buffer that is allocated more than
    once in a kernel has one place, for the largest of its shapes.
    """

    name: str
    dtype: str
    shape: tuple[Extent, ...]
    scope: Scope
    strides: tuple[int, ...] = ()

    @property
    def num_tiles(self) -> int:
        """Tiles of the largest instance."""
        return int(np.prod([extent.size for extent in self.shape], dtype=np.int64))

    def __str__(self) -> str:
        """Return e.g. `x: input int8[1, 2, min(6, 30 - 4*h_o), 58, 1]`."""
        return f"{self.name}: {self.scope.value} {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Region:
    """A box of a buffer: per dimension its origin, extent and step between elements."""

    buffer: Buffer
    origin: tuple[Affine, ...]
    shape: tuple[Extent, ...]
    step: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Check the rank."""
        ranks = {len(self.origin), len(self.shape), len(self.step or self.shape)}
        if ranks != {len(self.buffer.shape)}:
            raise CompileError(f"loops: a region of {self.buffer.name} has ranks {sorted(ranks)}")

    def __str__(self) -> str:
        """Return e.g. `x[0, 4*h_o - 2 : +6 : 2]`."""
        steps = self.step or (1,) * len(self.shape)
        parts = [
            str(o) if e == Extent(1) else f"{o} : +{e}" + (f" : {s}" if s != 1 else "")
            for o, e, s in zip(self.origin, self.shape, steps, strict=True)
        ]
        return f"{self.buffer.name}[{', '.join(parts)}]"


def whole(buffer: Buffer) -> Region:
    """Return the region that is the whole buffer."""
    return Region(buffer, (ZERO,) * len(buffer.shape), buffer.shape)


@dataclass(frozen=True, slots=True)
class Operand:
    """One tile of a buffer, at affine indices."""

    buffer: Buffer
    index: tuple[Affine, ...]

    def __post_init__(self) -> None:
        """Check the rank."""
        if len(self.index) != len(self.buffer.shape):
            raise CompileError(f"loops: {self.buffer.name} has rank {len(self.buffer.shape)}")

    def __str__(self) -> str:
        """Return e.g. `acc[n, o, h, w, 0]`."""
        return f"{self.buffer.name}[{', '.join(map(str, self.index))}]"


@dataclass(frozen=True, slots=True)
class Allocate:
    """A scratchpad buffer comes to life; it lives to the end of the enclosing body."""

    buffer: Buffer


@dataclass(frozen=True, slots=True)
class Copy:
    """DRAM to scratchpad, dimension by dimension.

    Source elements out of the buffer's bounds read as `pad`, in stored units after `flip`
    (invert the top bit of each byte).  `widen`: int8 tiles to int32, less `zero_point`.
    It happens only in the first iteration of the loops that `once` names.
    """

    dst: Region
    src: Region
    pad: int = 0
    flip: bool = False
    widen: bool = False
    zero_point: int = 0
    once: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Intrinsic:
    """One tile operation: dst = dst ∘ f(sources).

    `gemm` (dst, input, weight): dst += input · weightᵀ; `max` (dst, src): dst = max(dst, src).
    Both reduce over the loops that dst's index does not use, out to dst's allocation, and
    overwrite dst at the first iteration, which `gemm_add`, else like `gemm`, does not.  Without
    reduction: `add` (dst, src): dst += src;
    `multiply` (dst, src): dst *= src; `scale` (dst): dst *= immediate; `scale_add` (dst, src):
    dst += src * immediate.  Products take the low 18 bits of dst (of src for `scale_add`) and
    25 bits of the other factor.
    """

    name: str
    dst: Operand
    sources: tuple[Operand, ...] = ()
    immediate: int = 0


@dataclass(frozen=True, slots=True)
class Store:
    """Accumulators to DRAM through the output stage; raw int32 when `parameters` is None.

    Dimensions in which `parameters` has extent 1 share a parameter.  Elements out of `clip`
    (low and high per dimension of dst; default its bounds) are not written.
    """

    dst: Region
    src: Region
    parameters: Region | None
    zero_point: int = 0
    low: int = -128
    high: int = 127
    clip: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class For:
    """A loop; its axis is 0 to extent − 1.  `threads` is the number of virtual threads."""

    axis: str
    extent: Extent
    kind: Kind
    body: "tuple[Statement, ...]"
    threads: int = 2


Statement = For | Allocate | Copy | Intrinsic | Store


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """A layer's loop nests; `inputs`, `outputs` map DRAM buffers to the graph's values.

    `constants` holds the bytes of the other DRAM buffers, `folds` how the host folds values
    that it packs for the kernel.
    """

    name: str
    body: tuple[Statement, ...]
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    constants: Mapping[str, NDArray[np.uint8]] = field(default_factory=dict)
    folds: Mapping[str, Fold] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the readable text form."""
        names = [f"{k} = {v!r}" for k, v in (*self.inputs.items(), *self.outputs.items())]
        names += [f"{name}: {data.size} bytes" for name, data in self.constants.items()]
        return "\n".join([f"kernel {self.name}({', '.join(names)})", *_lines(self.body, 1)])


@dataclass(frozen=True, slots=True)
class Declined:
    """Why an operator has no kernel on a target."""

    reason: str


def nest(loops: Sequence[tuple[str, Extent]], kind: Kind, body: tuple[Statement, ...]) -> For:
    """Return perfectly nested loops of one kind around a body, the first outermost."""
    for name, extent in reversed(loops):
        body = (For(name, extent, kind, body),)
    loop = body[0]
    if not isinstance(loop, For):
        raise CompileError("loops: a nest needs at least one loop")
    return loop


def _lines(body: tuple[Statement, ...], depth: int) -> list[str]:
    indent, lines = "  " * depth, []
    for statement in body:
        match statement:
            case For(name, extent, kind, inner, threads):
                more = f" of {threads}" if threads > 2 else ""
                lines.append(f"{indent}for {name} in {extent} {kind.value}{more}:")
                lines += _lines(inner, depth + 1)
            case Allocate(buffer):
                lines.append(f"{indent}allocate {buffer}")
            case Copy():
                flags = [f"pad={statement.pad}"] if statement.pad else []
                flags += ["flip"] if statement.flip else []
                flags += [f"widen zero_point={statement.zero_point}"] if statement.widen else []
                flags += [f"once in {', '.join(statement.once)}"] if statement.once else []
                lines.append(" ".join([f"{indent}{statement.dst} = {statement.src}", *flags]))
            case Intrinsic(name, dst, sources, immediate):
                terms = [str(item) for item in (dst, *sources)]
                terms += [str(immediate)] if name in SCALING else []
                lines.append(f"{indent}{name} {', '.join(terms)}")
            case Store(dst, src, parameters):
                stage = "raw" if parameters is None else f"through {parameters}"
                limits = f"zero_point={statement.zero_point} in {statement.low}..{statement.high}"
                clip = f" clip={list(map(list, statement.clip))}" if statement.clip else ""
                lines.append(f"{indent}{dst} = {src} {stage} {limits}{clip}")
    return lines


def verify(kernel: Kernel) -> None:
    """Check that axes are unique on a path, and scratchpad buffers are allocated before use.

    Raises:
        CompileError: the first statement that breaks a rule.
    """
    dram = {*kernel.inputs, *kernel.outputs, *kernel.constants}
    _verify(kernel.name, kernel.body, frozenset(), set(dram))


def _verify(
    kernel: str, body: tuple[Statement, ...], axes: frozenset[str], known: set[str]
) -> None:
    for statement in body:
        used: tuple[Region | Operand, ...] = ()
        match statement:
            case For(name, _, _, inner):
                if name in axes:
                    raise CompileError(f"loops: {kernel}: axis {name} is nested in itself")
                _verify(kernel, inner, axes | {name}, set(known))
            case Allocate(buffer):
                known.add(buffer.name)
            case Copy(dst, src):
                used = (dst, src)
            case Intrinsic(_, operand, sources):
                used = (operand, *sources)
            case Store(dst, src, parameters):
                used = (dst, src, *([parameters] if parameters else []))
        for item in used:
            indices = item.origin if isinstance(item, Region) else item.index
            free = {name for index in indices for name, _ in index.terms} - axes
            if item.buffer.name not in known or free:
                problem = f"axes {sorted(free)} are free" if free else "is not allocated"
                raise CompileError(f"loops: {kernel}: {item.buffer.name}: {problem}")
