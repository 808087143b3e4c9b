"""What the RTL engine needs to know about a program's code, without decoding all of it."""

import functools

import numpy as np
from numpy.typing import NDArray

from tilewright.hw import isa, verilog
from tilewright.hw.config import Config
from tilewright.hw.encoding import decode_word, disassemble
from tilewright.hw.errors import SimulationError
from tilewright.hw.isa import INSTRUCTION_BYTES, INSTRUCTIONS, Alu, Engine, Gemm, Instruction

_WORD_BITS = 64
_STEP_FIELDS = {
    isa.Load: ("z", "y", "pad_top", "pad_bottom", "x", "pad_left", "pad_right"),
    isa.Store: ("z", "y", "x"),
    Gemm: ("uop_count", "extent_0", "extent_1", "extent_2"),
    Alu: ("uop_count", "extent_0", "extent_1", "extent_2"),
}
_MOST_STEPS = 1 << 60


class Code:
    """The instructions of a CODE segment; illegal ones belong to no engine."""

    def __init__(self, code: NDArray[np.uint8], config: Config) -> None:
        """Take uint8[n · 32], flat or as [n, 32].

        Raises:
            SimulationError: not a whole number of instructions.
        """
        if code.size % INSTRUCTION_BYTES:
            raise SimulationError(
                f"code: {code.size} bytes are not a multiple of {INSTRUCTION_BYTES};"
                " an instruction is cut off"
            )
        self._rows = code.reshape(-1, INSTRUCTION_BYTES)
        self._config = config
        self._opcodes = self._rows[:, 0] & ((1 << isa.OPCODE_BITS) - 1)

    def __len__(self) -> int:
        return len(self._rows)

    def of_engine(self, engine: Engine) -> NDArray[np.intp]:
        """Return the indices of an engine's instructions, in order."""
        opcodes = [word.OPCODE for word in INSTRUCTIONS if word.ENGINE is engine]
        return np.flatnonzero(np.isin(self._opcodes, opcodes))

    def describe(self, index: int) -> str:
        """Return an instruction as text: its index and its disassembly."""
        word = int.from_bytes(self._rows[index].tobytes(), "little")
        try:
            text = disassemble(decode_word(word))
        except SimulationError:
            text = f"0x{word:064x}"
        return f"instruction {index} ({text})"

    @functools.cached_property
    def longest_steps(self) -> int:
        """A bound on the cycles in which no engine reports anything, memory apart."""
        lanes = self._config.batch * self._config.block_out
        widest = max(self._config.tile_bytes().values())
        cycles_a_step = {
            isa.Load: -(-widest // self._config.axi_bytes) + 1,
            isa.Store: lanes,
            Gemm: 1,
            Alu: 2 * -(-lanes // self._config.alu_lanes) + verilog.ALU_WRITE_STAGE,
        }
        return sum(
            cycles * int(min(self._steps(word).max(initial=0), _MOST_STEPS))
            for word, cycles in cycles_a_step.items()
        )

    def _steps(self, word: type[Instruction]) -> NDArray[np.float64]:
        words = np.ascontiguousarray(self._rows[self._opcodes == word.OPCODE]).view("<u8")
        fields = {field.name: field for field in isa.layout(word)}
        value = {name: _extract(words, fields[name]) for name in _STEP_FIELDS[word]}
        if word is isa.Load:
            height = value["y"] + value["pad_top"] + value["pad_bottom"]
            width = value["x"] + value["pad_left"] + value["pad_right"]
            return value["z"] * height * width
        steps: NDArray[np.float64] = np.prod(list(value.values()), axis=0)
        return steps


def _extract(words: NDArray[np.uint64], field: isa.Field) -> NDArray[np.float64]:
    """Return a field of up to 64 bits of uint64[n, 4] instructions."""
    word, shift = divmod(field.offset, _WORD_BITS)
    value = words[:, word] >> np.uint64(shift)
    if shift + field.bits > _WORD_BITS:
        value |= words[:, word + 1] << np.uint64(_WORD_BITS - shift)
    return (value & np.uint64((1 << field.bits) - 1)).astype(np.float64)
