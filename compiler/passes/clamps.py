"""Ranges of Relu and Clip: composed on real values, then in stored units."""

import math
from dataclasses import dataclass

import numpy as np

from tilewright.compiler.ir.graph import Node
from tilewright.compiler.ir.operators import stored_range
from tilewright.runtime.attributes import get_float
from tilewright.runtime.tensor import TensorType


@dataclass(frozen=True, slots=True)
class Clamp:
    """x ↦ min(max(x, low), high)."""

    low: float = -math.inf
    high: float = math.inf

    def then(self, after: "Clamp") -> "Clamp":
        """Return the clamp that applies this one, then `after`."""
        return Clamp(
            min(max(self.low, after.low), after.high), max(min(self.high, after.high), after.low)
        )

    def stored(self, kind: TensorType) -> tuple[int, int]:
        """Return the bounds in stored units: QuantizeLinear of a clamp is a clamp of it."""
        least, greatest = stored_range(kind.dtype)
        return (
            least if self.low == -math.inf else _stored(self.low, kind),
            greatest if self.high == math.inf else _stored(self.high, kind),
        )


def clamp_of(node: Node) -> Clamp:
    """Return what a Relu or Clip does, in the units of its input."""
    if node.op == "Relu":
        return Clamp(low=0)
    return Clamp(
        get_float(node.attributes, "min", -math.inf), get_float(node.attributes, "max", math.inf)
    )


def _stored(bound: float, kind: TensorType) -> int:
    least, greatest = stored_range(kind.dtype)
    if kind.quantization is None:
        return int(min(max(bound, least), greatest))
    scaled = np.float32(bound) / np.float32(kind.quantization.scale[0])
    return int(np.clip(np.rint(scaled) + kind.quantization.zero_point[0], least, greatest))
