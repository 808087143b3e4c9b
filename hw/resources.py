"""What a machine takes of an FPGA, estimated from its config alone.

Block RAM and multipliers are counted; look-up tables need synthesis and are not guessed.
"""

import math
from dataclasses import dataclass

from tilewright.hw.config import Config

RAM18_BITS = 18 * 1024
"""Half of a 36 Kib block RAM (AMD UG473, "7 Series Memory Resources")."""

OUTPUT_LANE_MULTIPLIERS = 2
"""DSPs of an output lane: a 33 × 24 product takes two 25 × 18 multipliers."""

PRODUCTS_A_MULTIPLIER = 2
"""int8 products that share one 25 × 18 multiplier, at a spacing of 16 bits."""


@dataclass(frozen=True, slots=True)
class Part:
    """What an FPGA offers (AMD DS190 for Zynq-7000, DS891 for Zynq UltraScale+)."""

    name: str
    family: str
    """As Yosys names it."""
    luts: int
    flip_flops: int
    ram36: float
    multipliers: int


XC7Z020 = Part("xc7z020", "xc7", 53_200, 106_400, 140, 220)
XCZU3EG = Part("xczu3eg", "xcup", 70_560, 141_120, 216, 360)
PARTS = (XC7Z020, XCZU3EG)


@dataclass(frozen=True, slots=True)
class Resources:
    """Block RAMs of 36 Kib and DSP multipliers of a machine."""

    ram36: float
    multipliers: int

    def share_of(self, part: Part) -> float:
        """Return the larger of the two shares of a part, 1 being all of it."""
        return max(self.ram36 / part.ram36, self.multipliers / part.multipliers)


def estimate(config: Config) -> Resources:
    """Return the estimate: scratchpads in block RAM, products, ALU and output lanes in DSPs."""
    kib = {memory: getattr(config, f"{memory}_kib") for memory in config.tile_bytes()}
    halves = sum(math.ceil(size * 1024 * 8 / RAM18_BITS) for size in kib.values())
    return Resources(
        ram36=halves / 2,
        multipliers=config.peak_macs_per_cycle // PRODUCTS_A_MULTIPLIER
        + config.alu_lanes
        + OUTPUT_LANE_MULTIPLIERS * config.output_lanes,
    )
