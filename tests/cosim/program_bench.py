"""The bench inside the simulator: whole programs through cocotbext-axi's bus models.

It judges our bus masters by somebody else's slave: every channel pauses at random, and the
memory that programs leave is compared with the functional engine's.
"""

import logging
import os
from collections.abc import Iterator

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge, with_timeout
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiRam

from tilewright.hw.config import Config
from tilewright.hw.encoding import disassemble
from tilewright.hw.isa import SEGMENT_ALIGNMENT, Segment
from tilewright.runtime.driver import (
    Accesses,
    Read,
    Write,
    identify,
    read_counters,
    read_status,
    start,
)
from tilewright.sim.functional import FunctionalEngine
from tilewright.sim.random_programs import RandomProgram, random_program

CLOCK_NS = 10
PATIENCE_NS = 2_000_000 * CLOCK_NS
MEMORY_BYTES = 1 << 62
"""The bench's memory is sparse."""

INSTRUCTIONS = 24

COMPARED = (Segment.WORKSPACE, Segment.OUTPUT)


class Pauses:
    """Random pauses of many channels, at a rate that is drawn anew for each program."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self.rate = 0.0

    def __iter__(self) -> Iterator[bool]:
        while True:
            yield bool(self._rng.random() < self.rate)


class Bench:
    """The machine out of reset, its memory and its registers."""

    def __init__(self, dut: object, rng: np.random.Generator) -> None:
        self._dut = dut
        Clock(dut.clk, CLOCK_NS, unit="ns").start()
        bus = AxiBus.from_prefix(dut, "m_axi")
        self._memory = AxiRam(bus, dut.clk, dut.rst, size=MEMORY_BYTES)
        self._registers = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)
        read, write = self._memory.read_if, self._memory.write_if
        for interface in (read, write, self._registers.read_if, self._registers.write_if):
            interface.log.setLevel(logging.WARNING)
        channels = (
            read.ar_channel,
            read.r_channel,
            write.aw_channel,
            write.w_channel,
            write.b_channel,
        )
        self.pauses = [Pauses(rng) for _ in channels]
        for channel, pauses in zip(channels, self.pauses, strict=True):
            channel.set_pause_generator(iter(pauses))

    async def reset(self) -> None:
        self._dut.rst.value = 1
        await ClockCycles(self._dut.clk, 5)
        self._dut.rst.value = 0
        await ClockCycles(self._dut.clk, 5)

    async def perform(self, accesses: Accesses) -> object:
        """Run register accesses and return their result."""
        try:
            access = next(accesses)
            while True:
                value = 0
                match access:
                    case Read(address):
                        value = await self._registers.read_dword(address)
                    case Write(address, data):
                        await self._registers.write_dword(address, data)
                access = accesses.send(value)
        except StopIteration as stop:
            return stop.value

    async def run(self, program: RandomProgram) -> dict[Segment, np.ndarray]:
        """Run the program; return what it left in the segments that it writes."""
        bases, sizes, address = {}, {}, 1 << program.config.axi_address_bits - 1
        for segment, data in program.segments.items():
            bases[segment], sizes[segment] = address, data.size
            self._memory.write(address, data.tobytes())
            address += (-(-data.size // SEGMENT_ALIGNMENT) + 1) * SEGMENT_ALIGNMENT
        await self.perform(identify(program.config))
        await self.perform(start(bases, sizes, len(program.instructions)))
        if not self._dut.irq.value:
            await with_timeout(RisingEdge(self._dut.irq), PATIENCE_NS, "ns")
        status = await self.perform(read_status())
        assert (status.done, status.error, status.busy) == (True, False, False)
        return {
            segment: np.frombuffer(self._memory.read(bases[segment], sizes[segment]), np.uint8)
            for segment in COMPARED
        }


@cocotb.test()
async def programs_agree_with_the_functional_engine(dut: object) -> None:
    config = Config.parse(os.environ["BENCH_CONFIG"])
    seed = int(os.environ["BENCH_SEED"])
    bench = Bench(dut, np.random.default_rng(seed))
    await bench.reset()
    for number in range(int(os.environ["BENCH_PROGRAMS"])):
        rng = np.random.default_rng([seed, number])
        program = random_program(config, rng, instructions=INSTRUCTIONS)
        for pauses in bench.pauses:
            pauses.rate = float(rng.choice([0.0, 0.2, 0.5, 0.8]))
        expected = program.copy_segments()
        FunctionalEngine(config).run(expected)
        found = await bench.run(program)
        for segment in COMPARED:
            differs = np.flatnonzero(found[segment] != expected[segment])
            listing = "\n".join(map(disassemble, program.instructions))
            assert not differs.size, (
                f"seed {seed}, program {number}: {differs.size} bytes of {segment.name} differ,"
                f" the first at {differs[:1]}\n{listing}"
            )
        counters = await bench.perform(read_counters())
        assert counters.instructions == len(program.instructions)
        dut._log.info("program %d: %d cycles", number, counters.cycles)
