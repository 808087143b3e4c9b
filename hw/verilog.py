"""The SystemVerilog of a config: a generated package of constants, and the hand-written modules."""

from pathlib import Path

from tilewright.hw import isa, registers, timing
from tilewright.hw.config import Config
from tilewright.hw.isa import AluOp, Memory, Opcode, Parameter, Rounding, Segment, Uop

RTL = Path(__file__).parent / "rtl"
TOP = "tw_top"
PACKAGE = "tw_pkg"

COMPUTE_READ_STAGE = 3
"""Cycles from the issue of a uop to its accumulator read, and from STORE's request to its read."""
GEMM_WRITE_STAGE = 6
"""Cycles from the issue of a GEMM uop to its accumulator write."""
ALU_WRITE_STAGE = 10
"""Cycles from the issue of the last slice of an ALU uop to its accumulator write."""
STORE_PIPELINE_BEATS = 32
"""Write buffer for the beats between STORE's request and their arrival in the buffer."""


def package(config: Config) -> str:
    """Return the text of `tw_pkg.sv`: sizes of the config, bit layout of the ISA, register map."""
    lines = [
        f"// Generated from config {config.name}; do not edit.",
        "/* verilator lint_off UNUSEDPARAM */  // one package serves every module",
        f"package {PACKAGE};",
    ]
    lines += [f"  localparam integer {name} = {value};" for name, value in _sizes(config).items()]
    lines.append(f"  localparam [63:0] CONFIG_HASH = 64'h{config.config_hash:016x};")
    lines.append(f"  localparam [31:0] ID_VALUE = 32'h{registers.ID_VALUE:08x};")
    for prefix, enum, width in (
        ("OPCODE", Opcode, isa.OPCODE_BITS),
        ("MEMORY", Memory, 3),
        ("SEGMENT", Segment, 4),
        ("ALU_OP", AluOp, 4),
        ("ROUNDING", Rounding, 2),
        ("ERROR", registers.ErrorCause, 8),
    ):
        lines += [
            f"  localparam [{width - 1}:0] {prefix}_{m.name} = {width}'d{m.value};" for m in enum
        ]
    for word in (*isa.INSTRUCTIONS, Uop, Parameter):
        name = word.__name__.upper()
        for field in isa.layout(word):
            lines.append(f"  localparam integer {name}_{field.name.upper()}_LSB = {field.offset};")
            lines.append(f"  localparam integer {name}_{field.name.upper()}_W = {field.bits};")
    lines += [
        f"  localparam [REGISTER_ADDRESS_W-1:0] REG_{register.name.upper()} = {register.address};"
        for register in registers.REGISTERS.values()
    ]
    lines += ["endpackage", "/* verilator lint_on UNUSEDPARAM */", ""]
    return "\n".join(lines)


def write_buffer_beats(config: Config) -> int:
    """Return the beats that the store engine buffers.

    They are what is on its way through the output stage, a burst that fills while another leaves,
    and always a whole raw tile beside an unfinished burst.
    """
    tile = -(-config.accumulator_tile_bytes // config.axi_bytes)
    beats = max(2 * config.axi_burst_beats + STORE_PIPELINE_BEATS, config.axi_burst_beats + tile)
    return 1 << (beats - 1).bit_length()


def _sizes(config: Config) -> dict[str, int]:
    sizes = {
        key.upper(): value
        for key, value in config.machine_fields().items()
        if not key.endswith("_kib")
    }
    tile_bytes = config.tile_bytes()
    sizes |= {f"{memory.upper()}_DEPTH": depth for memory, depth in config.depths().items()}
    sizes |= {f"{memory.upper()}_TILE_BYTES": size for memory, size in tile_bytes.items()}
    return sizes | {
        "OUTPUT_TILE_BYTES": config.output_tile_bytes,
        "MAX_TILE_BYTES": max(tile_bytes.values()),
        "SUB_LANES": config.sub_lanes,
        "AXI_BYTES": config.axi_bytes,
        "COMPUTE_READ_STAGE": COMPUTE_READ_STAGE,
        "GEMM_WRITE_STAGE": GEMM_WRITE_STAGE,
        "ALU_WRITE_STAGE": ALU_WRITE_STAGE,
        "WRITE_BUFFER_BEATS": write_buffer_beats(config),
        "ISA_VERSION": isa.VERSION,
        "NUM_SEGMENTS": isa.NUM_SEGMENTS,
        "INSTRUCTION_BITS": isa.INSTRUCTION_BITS,
        "OPCODE_BITS": isa.OPCODE_BITS,
        "FETCH_BURST_BEATS": timing.fetch_burst_beats(config),
        "LOAD_FIFO_BEATS": timing.load_fifo_beats(config),
        "LOAD_QUEUE_DEPTH": timing.LOAD_QUEUE_DEPTH,
        "START_CYCLES": timing.START_CYCLES,
        "REGISTER_ADDRESS_W": registers.REGISTER_SPACE_BYTES.bit_length() - 1,
    }


def sources() -> list[Path]:
    """Return the hand-written modules, in an order that every tool accepts."""
    return sorted(RTL.glob("*.sv"))


def write_sources(config: Config, folder: Path) -> list[Path]:
    """Write the package and copy the modules into `folder`; return the paths, package first."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{PACKAGE}.sv"]
    paths[0].write_text(package(config))
    for source in sources():
        paths.append(folder / source.name)
        paths[-1].write_text(source.read_text())
    return paths
