"""Every instruction of the functional engine against NumPy int64, written independently."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from tilewright.hw.config import Config
from tilewright.hw.encoding import encode, encode_parameters, encode_uops
from tilewright.hw.errors import SimulationError
from tilewright.hw.isa import (
    Alu,
    AluOp,
    Finish,
    Gemm,
    Instruction,
    Load,
    Memory,
    Rounding,
    Segment,
    Store,
    Uop,
    layout,
)
from tilewright.sim.functional import FunctionalEngine

TINY = Config.preset("tiny")
DEFAULT = Config()
WIDE = Config(batch=2, block_in=8, block_out=32)
TALL = Config(batch=4, block_in=32, block_out=8, output_lanes=8)
CONFIGS = [TINY, DEFAULT, WIDE, TALL]

INT32_CORNERS = np.array(
    [0, 1, -1, 2, 3, -3, 5, 7, -(1 << 31), (1 << 31) - 1, 1 << 30, -(1 << 17), 131072, 0x12345678]
)


def run(
    config: Config,
    instructions: Sequence[Instruction],
    constants: np.ndarray | None = None,
    workspace: np.ndarray | None = None,
    rng: np.random.Generator | None = None,
) -> np.ndarray:
    """Run the instructions, and return the OUTPUT segment."""
    segments = {
        Segment.CODE: encode([*instructions, Finish()]).reshape(-1),
        Segment.CONSTANTS: np.zeros(0, np.uint8) if constants is None else constants,
        Segment.WORKSPACE: np.zeros(4096, np.uint8) if workspace is None else workspace,
        Segment.OUTPUT: np.full(1 << 18, 0xEE, np.uint8),
    }
    FunctionalEngine(config, rng=rng).run(segments)
    return segments[Segment.OUTPUT]


def in_order(*instructions: Instruction) -> list[Instruction]:
    """Order the instructions by tokens: each hands one to the engine that comes next."""
    tokens: list[dict[str, int]] = [{} for _ in instructions]
    for i in range(len(instructions) - 1):
        here, there = instructions[i].ENGINE, instructions[i + 1].ENGINE
        if here is not there:
            tokens[i]["push_next" if there is here.next else "push_previous"] = 1
            tokens[i + 1]["pop_previous" if there is here.next else "pop_next"] = 1
    return [with_fields(i, **t) for i, t in zip(instructions, tokens, strict=True)]


def with_fields(instruction: Instruction, **changes: int) -> Instruction:
    fields = {field.name: getattr(instruction, field.name) for field in layout(type(instruction))}
    return type(instruction)(**{**fields, **changes})


def error_of(config: Config, *instructions: Instruction, **memory: np.ndarray) -> str:
    with pytest.raises(SimulationError) as caught:
        run(config, instructions, **memory)
    return str(caught.value)


class Image:
    """A CONSTANTS segment under construction."""

    def __init__(self) -> None:
        self.data = np.zeros(0, np.uint8)

    def add(self, array: np.ndarray, *, align: int = 4096, shift: int = 0) -> int:
        """Append the bytes at a multiple of `align` plus `shift`; return the offset."""
        offset = -(-len(self.data) // align) * align + shift
        gap = np.full(offset - len(self.data), 0x77, np.uint8)
        data = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
        self.data = np.concatenate([self.data, gap, data])
        return offset


def to_dram(tiles: np.ndarray, sub: int) -> np.ndarray:
    """Order [tiles][batch][lanes] as DRAM has it: sub-tiles of `sub` lanes, rows inside."""
    parts = [tiles[:, :, k : k + sub] for k in range(0, tiles.shape[2], sub)]
    return np.stack(parts, axis=1)


def from_dram(data: np.ndarray, config: Config) -> np.ndarray:
    """Return [tiles][batch][block_out] of accumulator-shaped tiles in DRAM order."""
    sub = min(config.block_in, config.block_out)
    split = data.reshape(-1, config.block_out // sub, config.batch, sub)
    return np.concatenate(list(split.transpose(1, 0, 2, 3)), axis=-1)


def stored_accumulators(output: np.ndarray, config: Config, count: int) -> np.ndarray:
    size = count * config.batch * config.block_out
    return from_dram(output.view("<i4")[:size].astype(np.int64), config)


def wrap(values: np.ndarray, bits: int = 32) -> np.ndarray:
    """Keep the low bits as a signed number, by arithmetic modulo 2^bits."""
    half = 1 << (bits - 1)
    return (values + half) % (1 << bits) - half


class Operands:
    """Random tiles of every memory, and the LOADs that bring them in."""

    def __init__(self, config: Config, seed: int, tiles: int = 12) -> None:
        rng = np.random.default_rng(seed)
        b, i, o = config.batch, config.block_in, config.block_out
        self.image = Image()
        self.input = rng.integers(-128, 128, (tiles, b, i))
        self.weight = rng.integers(-128, 128, (tiles, o, i))
        corners = rng.choice(INT32_CORNERS, (tiles, b, o))
        spread = rng.integers(-(1 << 31), 1 << 31, (tiles, b, o))
        self.accumulator = np.where(rng.random((tiles, b, o)) < 0.5, corners, spread)
        sub = min(i, o)
        arrays = {
            Memory.INPUT: to_dram(self.input.astype(np.int8), sub),
            Memory.WEIGHT: self.weight.astype(np.int8),
            Memory.ACCUMULATOR: to_dram(self.accumulator.astype("<i4"), sub),
        }
        self.loads = [
            Load(memory=m, segment=Segment.CONSTANTS, offset=self.image.add(a), x=tiles)
            for m, a in arrays.items()
        ]

    def load_uops(self, uops: Sequence[Uop]) -> Load:
        offset = self.image.add(encode_uops(uops))
        return Load(memory=Memory.UOP, segment=Segment.CONSTANTS, offset=offset, x=len(uops))


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
@pytest.mark.parametrize("memory", [Memory.INPUT, Memory.ACCUMULATOR])
def test_padded_load_across_a_page_is_numpy_pad(config: Config, memory: Memory) -> None:
    # Rows of 70 positions, one pad all around, starting 64 bytes below a 4 KiB line.
    rng = np.random.default_rng(26)
    depths = config.depths()
    height = 3 if min(depths["input"], depths["accumulator"]) >= 5 * 72 else 1
    width, pad_value = 70, -7
    lanes = config.block_in if memory is Memory.INPUT else config.block_out
    x = rng.integers(-128, 128, (height, width, config.batch, lanes)).astype(np.int8)
    sub = min(config.block_in, config.block_out)
    image = Image()
    tiles = to_dram(x.reshape(-1, config.batch, lanes), sub)
    offset = image.add(tiles, shift=4096 - 64)
    widen = memory is Memory.ACCUMULATOR
    load = Load(
        memory=memory,
        segment=Segment.CONSTANTS,
        offset=offset,
        x=width,
        y=height,
        y_stride=width * config.batch * lanes,
        pad_top=1,
        pad_bottom=1,
        pad_left=1,
        pad_right=1,
        pad_value=pad_value,
        widen=int(widen),
        zero_point=-30 if widen else 0,
    )
    count = (height + 2) * (width + 2)
    expected = np.pad(x, ((1, 1), (1, 1), (0, 0), (0, 0)), constant_values=pad_value)
    expected = expected.reshape(-1, config.batch, lanes).astype(np.int64)
    store = Store(segment=Segment.OUTPUT, x=count, raw=1)
    if widen:
        output = run(config, in_order(load, store), image.data)
        assert np.array_equal(stored_accumulators(output, config, count), expected + 30)
        return
    # The input scratchpad is seen through products with rows of the identity matrix.
    for part in range(0, config.block_in, config.block_out):
        picked = np.zeros((1, config.block_out, config.block_in), np.int8)
        rows = range(min(config.block_out, config.block_in))
        picked[0, list(rows), [part + r for r in rows]] = 1
        weights = Load(memory=Memory.WEIGHT, segment=Segment.CONSTANTS, offset=image.add(picked))
        uops = Load(
            memory=Memory.UOP,
            segment=Segment.CONSTANTS,
            offset=image.add(encode_uops([Uop(first=1)])),
        )
        gemm = Gemm(extent_2=count, dst_stride_2=1, src_stride_2=1, overwrite=1)
        output = run(config, in_order(load, weights, uops, gemm, store), image.data)
        seen = stored_accumulators(output, config, count)[:, :, : len(rows)]
        assert np.array_equal(seen, expected[:, :, part : part + len(rows)])


def test_load_with_strides_flip_and_widening() -> None:
    config = WIDE
    rng = np.random.default_rng(1)
    planes, rows, columns, size = 2, 3, 4, config.batch * config.block_out
    dram = rng.integers(0, 256, 8192, np.uint8)
    load = Load(
        memory=Memory.ACCUMULATOR,
        segment=Segment.WORKSPACE,
        offset=4096,
        scratchpad=5,
        x=columns,
        y=rows,
        z=planes,
        y_stride=-320 % (1 << 32),
        z_stride=1024,
        pad_left=2,
        pad_value=-128,
        flip=1,
        widen=1,
        zero_point=-200,
    )
    count = planes * rows * (columns + 2)
    store = Store(segment=Segment.OUTPUT, accumulator=5, x=count, raw=1)
    seen = stored_accumulators(run(config, in_order(load, store), None, dram), config, count)
    expected = []
    for z, y in product(range(planes), range(rows)):
        expected += [np.full(size, -128 + 200)] * 2
        for x in range(columns):
            start = 4096 + z * 1024 - y * 320 + x * size
            expected.append(dram[start : start + size].astype(np.int64) - 128 + 200)
    assert np.array_equal(seen, from_dram(np.array(expected), config))


@pytest.mark.parametrize("empty", [{"x": 0}, {"y": 0}, {"x": 0, "y": 0}])
def test_load_of_padding_alone_reads_nothing(empty: dict[str, int]) -> None:
    load = Load(
        memory=Memory.ACCUMULATOR,
        segment=Segment.CODE,
        offset=0xFFFFF000,
        pad_top=2,
        pad_right=3,
        pad_value=-9,
        **empty,
    )
    count = (2 + load.y) * (load.x + 3)
    output = run(TINY, in_order(load, Store(segment=Segment.OUTPUT, x=count, raw=1)))
    seen = stored_accumulators(output, TINY, count)
    assert np.array_equal(seen, np.full_like(seen, -9))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
def test_gemm_is_a_sequence_of_tile_products(config: Config, seed: int) -> None:
    rng = np.random.default_rng(seed)
    operands = Operands(config, seed)
    extents = rng.integers(1, 4, 3).tolist()
    columns = rng.integers((4, 4, 4, 0), (7, 7, 7, 2), (5, 4)).tolist()
    uops = [Uop(dst=d, src=s, weight=w, first=f) for d, s, w, f in columns]
    strides = rng.integers(-1, 2, (3, 3))
    # From bases 4 to 6, two loops of up to three steps stay inside the 12 tiles.
    strides[:, rng.integers(3)] = 0
    gemm = Gemm(
        uop_begin=1,
        uop_count=4,
        **{f"extent_{i}": extents[i] for i in range(3)},
        **{
            f"{name}_stride_{i}": int(strides[k, i]) % (1 << 16)
            for k, name in enumerate(("dst", "src", "weight"))
            for i in range(3)
        },
        overwrite=int(rng.integers(4) > 0),
        reduce_mask=int(rng.integers(8)),
    )
    expected = operands.accumulator.copy()
    for loops in product(*map(range, extents)):
        for uop in uops[1:]:
            d, s, w = (strides @ loops + [uop.dst, uop.src, uop.weight]).tolist()
            masked = [loops[i] for i in range(3) if gemm.reduce_mask >> i & 1]
            old = 0 if gemm.overwrite and uop.first and not any(masked) else expected[d]
            expected[d] = wrap(old + operands.input[s] @ operands.weight[w].T)
    loads = [*operands.loads, operands.load_uops(uops)]
    store = Store(segment=Segment.OUTPUT, x=12, raw=1)
    output = run(config, in_order(*loads, gemm, store), operands.image.data)
    assert np.array_equal(stored_accumulators(output, config, 12), expected)


@pytest.mark.parametrize("count", [1, 2, 511, 512])
def test_gemm_of_any_number_of_uops_is_stored_complete(count: int) -> None:
    operands = Operands(TINY, count)
    rng = np.random.default_rng(count)
    columns = rng.integers(0, 12, (count, 3))
    uops = [Uop(dst=d, src=s, weight=w) for d, s, w in columns.tolist()]
    loads = [*operands.loads, operands.load_uops(uops)]
    expected = operands.accumulator.copy()
    for d, s, w in columns:
        expected[d] = wrap(expected[d] + operands.input[s] @ operands.weight[w].T)
    gemm = Gemm(uop_count=count)
    store = Store(segment=Segment.OUTPUT, x=12, raw=1)
    output = run(TINY, in_order(*loads, gemm, store), operands.image.data)
    assert np.array_equal(stored_accumulators(output, TINY, 12), expected)


def test_a_long_reduction_of_extremes_wraps_exactly() -> None:
    # 65,535 · 16 products of (−128)² pass both 2^24 and 2^31.
    image = Image()
    lowest = np.full((16, 16), -128, np.int8)
    one_tile = {"segment": Segment.CONSTANTS, "offset": image.add(lowest)}
    uops = Load(
        memory=Memory.UOP,
        segment=Segment.CONSTANTS,
        offset=image.add(encode_uops([Uop(first=1)])),
    )
    output = run(
        DEFAULT,
        in_order(
            Load(memory=Memory.INPUT, **one_tile),
            Load(memory=Memory.WEIGHT, **one_tile),
            uops,
            Gemm(extent_1=65535, overwrite=1, reduce_mask=2),
            Store(segment=Segment.OUTPUT, raw=1),
        ),
        image.data,
    )
    expected = wrap(np.int64(65535 * 16 * 128 * 128))
    assert np.array_equal(stored_accumulators(output, DEFAULT, 1), np.full((1, 1, 16), expected))


def round_half(value: Fraction, rounding: Rounding) -> int:
    """Round a rational exactly."""
    floor = value.numerator // value.denominator
    rest = value - floor
    if rounding is Rounding.FLOOR or rest < Fraction(1, 2):
        return floor
    if rest > Fraction(1, 2):
        return floor + 1
    if rounding is Rounding.HALF_EVEN:
        return floor + floor % 2
    return floor + (value > 0)


def alu_oracle(op: AluOp, a: int, b: int, c: int, rounding: Rounding) -> int:
    """Python integers: `b` second operand, `c` the source tile (for MAC)."""
    exact = {
        AluOp.MIN: lambda: min(a, b),
        AluOp.MAX: lambda: max(a, b),
        AluOp.ADD: lambda: a + b,
        AluOp.SUB: lambda: a - b,
        AluOp.MUL: lambda: int(wrap(np.int64(a), 18)) * int(wrap(np.int64(b), 25)),
        AluOp.SHR: lambda: (
            round_half(Fraction(a, 1 << min(b, 200)), rounding) if b >= 0 else a << min(-b, 200)
        ),
        AluOp.MAC: lambda: a + int(wrap(np.int64(c), 18)) * b,
        AluOp.MOV: lambda: b,
    }[op]()
    return (exact + (1 << 31)) % (1 << 32) - (1 << 31)


IMMEDIATES = (-5, -128, -1, 0, 1, 127, (1 << 24) - 1, -(1 << 24))
AMOUNTS = (0, 1, 2, 8, 30, 31, 32, 33, 34, 63, 1000, -1, -5, -31, -32, -33, -(1 << 24))


@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize("op", AluOp)
def test_alu_with_an_immediate_on_int32_corners(op: AluOp, rounding: Rounding) -> None:
    if rounding and op is not AluOp.SHR:
        rounding = Rounding.FLOOR
    operands = Operands(DEFAULT, 7)
    loads = [*operands.loads, operands.load_uops([Uop(dst=0, src=6)])]
    store = Store(segment=Segment.OUTPUT, x=6, raw=1)
    for immediate in AMOUNTS if op is AluOp.SHR else IMMEDIATES:
        alu = Alu(
            extent_2=6,
            dst_stride_2=1,
            src_stride_2=1,
            op=op,
            immediate=immediate,
            use_immediate=1,
            rounding=rounding,
        )
        output = run(DEFAULT, in_order(*loads, alu, store), operands.image.data)
        seen = stored_accumulators(output, DEFAULT, 6).reshape(-1).tolist()
        a, c = (operands.accumulator[t].reshape(-1).tolist() for t in (slice(6), slice(6, 12)))
        expected = [alu_oracle(op, x, immediate, y, rounding) for x, y in zip(a, c, strict=True)]
        assert seen == expected, f"immediate {immediate}"


@pytest.mark.parametrize("amount", [31, 32, 33, 63])
def test_shift_right_by_much_leaves_the_sign(amount: int) -> None:
    values = np.array([0, 3, -1, -(1 << 31), (1 << 31) - 1] + [0] * 11, "<i4")
    image = Image()
    load = Load(memory=Memory.ACCUMULATOR, segment=Segment.CONSTANTS, offset=image.add(values))
    uops = Load(
        memory=Memory.UOP, segment=Segment.CONSTANTS, offset=image.add(encode_uops([Uop()]))
    )
    alu = Alu(op=AluOp.SHR, immediate=amount, use_immediate=1)
    store = Store(segment=Segment.OUTPUT, raw=1)
    output = run(DEFAULT, in_order(load, uops, alu, store), image.data)
    assert output.view("<i4")[:5].tolist() == [0, 0, -1, -1, 0]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("op", [op for op in AluOp if op is not AluOp.MAC])
def test_alu_runs_its_steps_in_order(op: AluOp, seed: int) -> None:
    # Destinations and sources are drawn from the same few tiles, so steps depend on steps.
    rng = np.random.default_rng(seed)
    operands = Operands(TINY, seed)
    uops = [Uop(dst=d, src=s) for d, s in rng.integers(4, 8, (6, 2)).tolist()]
    if seed == 0:
        uops = [Uop(dst=u.dst, src=u.dst) for u in uops]
    strides = rng.integers(-1, 2, (2, 3)) if seed else np.array([[1, 0, -1]] * 2)
    rounding = Rounding(seed % 3) if op is AluOp.SHR else Rounding.FLOOR
    alu = Alu(
        uop_count=6,
        extent_0=2,
        extent_1=2,
        extent_2=2,
        **{f"dst_stride_{i}": int(strides[0, i]) % (1 << 16) for i in range(3)},
        **{f"src_stride_{i}": int(strides[1, i]) % (1 << 16) for i in range(3)},
        op=op,
        rounding=rounding,
    )
    expected = operands.accumulator.copy()
    for loops in product(range(2), repeat=3):
        for uop in uops:
            d, s = (strides @ loops + [uop.dst, uop.src]).tolist()
            pairs = zip(expected[d].flat, expected[s].flat, strict=True)
            values = [alu_oracle(op, int(a), int(b), 0, rounding) for a, b in pairs]
            expected[d] = np.array(values).reshape(expected[d].shape)
    loads = [*operands.loads, operands.load_uops(uops)]
    store = Store(segment=Segment.OUTPUT, x=12, raw=1)
    output = run(TINY, in_order(*loads, alu, store), operands.image.data)
    assert np.array_equal(stored_accumulators(output, TINY, 12), expected)


@pytest.mark.parametrize("step", [0, 1])
@pytest.mark.parametrize("round_away", [0, 1])
@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.name)
def test_store_requantizes_each_channel_exactly(config: Config, round_away: int, step: int) -> None:
    rng = np.random.default_rng(round_away)
    planes, rows, columns, log2_period = 2, 2, 3, 1
    tiles, o = 12, config.block_out
    accumulator = np.concatenate(
        [
            rng.integers(-300, 300, (4, config.batch, o)),
            rng.choice(INT32_CORNERS, (4, config.batch, o)),
            rng.integers(-(1 << 31), 1 << 31, (4, config.batch, o)),
        ]
    )
    bias = rng.choice([0, 0, 1, -(1 << 31), (1 << 31) - 1, 1000], (6, o))
    multiplier = rng.choice([1, 2, 1 << 23, (1 << 24) - 1, 0, 12345678], (6, o))
    shift = rng.choice([0, 1, 2, 24, 31, 47, 63], (6, o))
    image = Image()
    sub = min(config.block_in, config.block_out)
    loads = [
        Load(
            memory=Memory.ACCUMULATOR,
            segment=Segment.CONSTANTS,
            offset=image.add(to_dram(accumulator.astype("<i4"), sub)),
            x=tiles,
        ),
        Load(
            memory=Memory.PARAMETER,
            segment=Segment.CONSTANTS,
            offset=image.add(encode_parameters(bias, multiplier, shift)),
            scratchpad=1,
            x=6,
        ),
    ]
    size = config.batch * o
    y_stride, z_stride = 5 * size, -16 * size
    store = Store(
        segment=Segment.OUTPUT,
        offset=64 * size,
        accumulator=8,
        x=columns,
        y=rows,
        z=planes,
        y_stride=y_stride,
        z_stride=z_stride % (1 << 32),
        accumulator_row=-2 % (1 << 16),
        parameter=2,
        parameter_step=step,
        log2_parameter_period=log2_period,
        zero_point=-3,
        low=-100,
        high=255,
        round_away=round_away,
    )
    output = run(config, in_order(*loads, store), image.data)
    rounding = Rounding.HALF_AWAY if round_away else Rounding.HALF_EVEN
    expected = np.full_like(output, 0xEE)
    for z, y, x in product(range(planes), range(rows), range(columns)):
        tile = accumulator[8 - 2 * (z * rows + y) + x]
        p = 2 + x % 2 + step * 2 * z - 1
        values = np.zeros((1, config.batch, o), np.uint8)
        for n, c in product(range(config.batch), range(o)):
            total = (int(tile[n, c]) + int(bias[p, c])) * int(multiplier[p, c])
            rounded = round_half(Fraction(total, 1 << int(shift[p, c])), rounding)
            values[0, n, c] = min(max(rounded - 3, -100), 255) % 256
        start = 64 * size + z * z_stride + y * y_stride + x * size
        expected[start : start + size] = to_dram(values, sub).reshape(-1)
    assert np.array_equal(output, expected)


def test_a_run_leaves_nothing_for_the_next() -> None:
    operands = Operands(DEFAULT, 29)
    first = in_order(
        *operands.loads,
        operands.load_uops([Uop(dst=1, src=2, weight=3), Uop(dst=4, src=5, weight=6)]),
        Gemm(uop_count=2),
        Store(segment=Segment.OUTPUT, x=12, raw=1),
    )
    other = in_order(
        operands.load_uops([Uop(dst=7, first=1)] * 2),
        Gemm(overwrite=1),
        Store(segment=Segment.OUTPUT, accumulator=7, raw=1),
    )
    rng = np.random.default_rng(0)
    before = run(DEFAULT, first, operands.image.data, rng=rng)
    between = run(DEFAULT, other, operands.image.data, rng=rng)
    after = run(DEFAULT, first, operands.image.data, rng=rng)
    assert not np.array_equal(before, between)
    assert np.array_equal(before, after)


def test_uops_that_the_run_did_not_load_are_an_error() -> None:
    assert error_of(DEFAULT, Gemm()) == (
        "compute instruction 0 (gemm): uop 0 is 0xa5a5a5a5a5a5a5a5, with bits set past the"
        " lower 49 of 64; was it loaded?"
    )


def test_index_past_depth_names_instruction_and_memory() -> None:
    load = Load(memory=Memory.INPUT, segment=Segment.WORKSPACE, scratchpad=2046, x=4)
    assert error_of(DEFAULT, load) == (
        "load instruction 0 (load   memory=input segment=workspace scratchpad=2046 x=4):"
        " input index 2048 is past depth 2048"
    )


def test_more_uops_than_the_memory_holds_are_an_error() -> None:
    message = error_of(TINY, Gemm(uop_count=513))
    assert message.endswith(": uop index 512 is past depth 512")


def test_row_past_its_segment_names_the_bytes() -> None:
    load = Load(memory=Memory.WEIGHT, segment=Segment.WORKSPACE, offset=4096 - 256, x=2)
    message = error_of(DEFAULT, load)
    assert message.endswith(
        ": row at bytes 3840 to 4351 is past the 4096 bytes of segment WORKSPACE"
    )


@pytest.mark.parametrize(
    ("instruction", "reason"),
    [
        (Load(memory=5), "memory=5 is not a memory; legal are 0 to 4"),
        (Load(segment=7), "segment=7 is not a segment; legal are 0 to 4"),
        (Load(offset=4), "offset=4 is not a multiple of 8 bytes"),
        (Load(y_stride=12), "y_stride=12 is not a multiple of 8 bytes"),
        (Load(widen=1), "widen is for ACCUMULATOR loads, not for INPUT"),
        (Load(reserved=1), "reserved bits must be 0"),
        (Load(z=0), "z=0 planes of 1 rows of 1 tiles write nothing"),
        (
            Load(memory=Memory.PARAMETER, pad_left=1),
            "PARAMETER loads take no padding",
        ),
        (
            Load(memory=Memory.UOP, segment=Segment.INPUT),
            "uops load from CONSTANTS only, not from INPUT",
        ),
        (
            Load(memory=Memory.ACCUMULATOR, flip=1),
            "flip is for INPUT, WEIGHT and widening ACCUMULATOR loads, not for ACCUMULATOR",
        ),
        (Gemm(uop_count=0), "uop_count=0 must be at least 1"),
        (Gemm(extent_1=0), "extent_1=0 must be at least 1"),
        (Alu(op=8), "op=8 is not an ALU operator; legal are 0 to 7"),
        (Alu(op=AluOp.SHR, rounding=3), "rounding=3 is not a rounding; legal are 0 to 2"),
        (Alu(op=AluOp.ADD, rounding=1), "rounding=1 is for SHR, not for ADD"),
        (Alu(op=AluOp.MAC), "MAC needs use_immediate=1"),
        (Store(segment=Segment.INPUT), "segment=3 is not WORKSPACE or OUTPUT"),
        (Store(segment=Segment.OUTPUT, y=0), "y=0 must be at least 1"),
        (Store(segment=Segment.OUTPUT, low=1, high=0), "low=1 is above high=0"),
    ],
)
def test_illegal_field_is_named(instruction: Instruction, reason: str) -> None:
    assert error_of(DEFAULT, instruction).endswith(f"): {reason}")


def test_a_token_that_never_comes_is_a_deadlock() -> None:
    message = error_of(DEFAULT, Gemm(pop_next=1), Store(segment=Segment.OUTPUT, pop_previous=1))
    assert message == (
        "deadlock: compute instruction 0 (gemm   <n) waits for a token from store;"
        " store instruction 0 (store  <p segment=output) waits for a token from compute"
    )


def test_a_queue_too_short_for_the_program_is_a_deadlock() -> None:
    instructions = [Gemm(pop_previous=1)] * (TINY.queue_depth + 1)
    load = Load(memory=Memory.ACCUMULATOR, segment=Segment.WORKSPACE, push_next=1)
    assert error_of(TINY, *instructions, load) == (
        "fetch instruction 8 (gemm   <p): deadlock, the compute queue of 8 is full:"
        " compute instruction 0 (gemm   <p) waits for a token from load"
    )


def test_tokens_left_at_finish_are_an_error() -> None:
    load = Load(memory=Memory.INPUT, segment=Segment.WORKSPACE, push_next=1, push_previous=1)
    assert error_of(DEFAULT, load, load) == (
        "tokens left at FINISH: 2 from load to compute, 2 from load to store; pop all of them"
    )


def test_code_must_end_at_its_only_finish() -> None:
    assert error_of(DEFAULT, Finish()) == (
        "code: instruction 0 of 2 is FINISH; only the last may be"
    )
    with pytest.raises(SimulationError, match="code: the last instruction must be FINISH"):
        FunctionalEngine(DEFAULT).run({Segment.CODE: np.zeros(0, np.uint8)})


def test_traffic_is_whole_beats_read_and_the_bytes_written() -> None:
    config = TINY.replace(axi_data_bits=128)
    code = [
        Load(memory=Memory.INPUT, segment=Segment.CONSTANTS, offset=12, x=2, y=2, y_stride=36),
        Store(segment=Segment.OUTPUT, offset=16, x=3, raw=1),
        Finish(),
    ]
    segments = {
        Segment.CODE: encode(code).reshape(-1),
        Segment.CONSTANTS: np.zeros(64, np.uint8),
        Segment.OUTPUT: np.zeros(4096, np.uint8),
    }
    result = FunctionalEngine(config).run(segments)
    # Code: 3 instructions of 2 beats.  Rows of bytes 12 to 19 and 48 to 55: 2 beats and 1.
    assert result.bytes_read == (6 + 3) * 16
    assert result.bytes_written == 3 * 16
