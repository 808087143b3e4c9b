"""The sources that `tilewright generate` writes: modules, and a bench with a small program.

The program multiplies random tiles, requantizes and stores them; the functional engine says
what must come out.
"""

import numpy as np
from numpy.typing import NDArray

from tilewright.hw import isa, verilog
from tilewright.hw.config import Config
from tilewright.hw.encoding import encode, encode_parameters, encode_uops
from tilewright.hw.isa import Memory, Segment, Uop
from tilewright.sim.functional import FunctionalEngine

BENCH = verilog.RTL.parent / "bench"
IMAGE_PACKAGE = "tw_image_pkg"
REDUCTION_TILES = 2
MAX_ROWS = 2
SEED = 0

Bytes = NDArray[np.uint8]


def source_files(config: Config) -> dict[str, bytes]:
    """Return {file name: contents}: package, modules, file list, bench, program image, Makefile."""
    modules = {path.name: path.read_bytes() for path in verilog.sources()}
    bench = {path.name: path.read_bytes() for path in sorted(BENCH.iterdir())}
    rows = min(MAX_ROWS, config.depths()["input"] // REDUCTION_TILES)
    code, constants = _program(config, rows)
    segments = {
        Segment.CODE: code.reshape(-1),
        Segment.CONSTANTS: constants,
        Segment.WORKSPACE: np.zeros(0, np.uint8),
        Segment.INPUT: np.zeros(0, np.uint8),
        Segment.OUTPUT: np.zeros(rows * config.output_tile_bytes, np.uint8),
    }
    dram, bases = _lay_out(segments)
    FunctionalEngine(config).run(segments)
    order = [f"{verilog.PACKAGE}.sv", f"{IMAGE_PACKAGE}.sv", *modules, "tw_bench.sv"]
    return {
        f"{verilog.PACKAGE}.sv": verilog.package(config).encode(),
        f"{IMAGE_PACKAGE}.sv": _image_package(segments, bases, dram.size).encode(),
        **modules,
        **bench,
        "files.f": "".join(f"{name}\n" for name in order).encode(),
        "config.toml": config.to_toml().encode(),
        "dram.hex": _hex(dram),
        "expected.hex": _hex(segments[Segment.OUTPUT]),
    }


def _program(config: Config, rows: int) -> tuple[Bytes, Bytes]:
    """Return code uint8[n, 32] and constants: output row r is Σ_k input[r, k] · weight[k]."""
    rng = np.random.default_rng(SEED)
    channels = config.block_out
    uops = [Uop(dst=0, src=k, weight=k, first=int(k == 0)) for k in range(REDUCTION_TILES)]
    parts = {
        Memory.UOP: encode_uops(uops).view(np.uint8),
        Memory.INPUT: _random(rng, rows * REDUCTION_TILES * config.input_tile_bytes),
        Memory.WEIGHT: _random(rng, REDUCTION_TILES * config.weight_tile_bytes),
        Memory.PARAMETER: encode_parameters(
            rng.integers(-(1 << 12), 1 << 12, channels),
            rng.integers(1 << 22, 1 << 23, channels),
            np.full(channels, 31),
        ).view(np.uint8),
    }
    constants, loads = np.zeros(0, np.uint8), []
    for memory, data in parts.items():
        tiles = data.size // config.tile_bytes()[memory.name.lower()]
        loads.append(
            isa.Load(
                memory=memory,
                segment=Segment.CONSTANTS,
                offset=constants.size,
                x=tiles,
                push_next=int(memory is Memory.PARAMETER),
            )
        )
        constants = np.concatenate([constants, _aligned(data)])
    code: list[isa.Instruction] = [
        *loads,
        isa.Gemm(
            pop_previous=1,
            push_next=1,
            uop_count=REDUCTION_TILES,
            extent_0=rows,
            dst_stride_0=1,
            src_stride_0=REDUCTION_TILES,
            overwrite=1,
        ),
        isa.Store(pop_previous=1, push_previous=1, segment=Segment.OUTPUT, x=rows),
        isa.Finish(pop_next=1),
    ]
    return encode(code), constants


def _random(rng: np.random.Generator, size: int) -> Bytes:
    return rng.integers(0, 256, size, dtype=np.uint8)


def _aligned(data: Bytes) -> Bytes:
    return np.pad(data, (0, -data.size % isa.SEGMENT_ALIGNMENT))


def _lay_out(segments: dict[Segment, Bytes]) -> tuple[Bytes, dict[Segment, int]]:
    """Return one memory image with every segment at an aligned base, and the bases."""
    image, bases = np.zeros(0, np.uint8), {}
    for segment, data in segments.items():
        bases[segment] = image.size
        image = np.concatenate([image, _aligned(data)])
    return image, bases


def _image_package(segments: dict[Segment, Bytes], bases: dict[Segment, int], size: int) -> str:
    code_bytes = segments[Segment.CODE].size
    constants = {
        "DRAM_BYTES": size,
        "NUM_INSTRUCTIONS": code_bytes // isa.INSTRUCTION_BYTES,
        **{f"{segment.name}_BASE": bases[segment] for segment in Segment},
        **{f"{segment.name}_BYTES": data.size for segment, data in segments.items()},
    }
    lines = [f"  localparam integer {name} = {value};" for name, value in constants.items()]
    return "\n".join(
        [
            "// The program image of the bench; generated, do not edit.",
            "/* verilator lint_off UNUSEDPARAM */",
            f"package {IMAGE_PACKAGE};",
            *lines,
            "endpackage",
            "/* verilator lint_on UNUSEDPARAM */",
            "",
        ]
    )


def _hex(data: Bytes) -> bytes:
    return ("\n".join(f"{byte:02x}" for byte in data.tolist()) + "\n").encode()
