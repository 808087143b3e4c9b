"""Tensor types: element type, shape, quantization; shared by compiler, programs, host kernels."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.hw.errors import ModelError

Dim = int | str
"""A dimension: a size, or the name of a symbol such as "N"."""


@dataclass(frozen=True, slots=True)
class Quantization:
    """real = (stored − zero_point) · scale, per tensor (one entry) or per channel of `axis`.

    Scales are float32 values; both tuples have one entry, or one a channel.
    """

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int | None = None

    def __post_init__(self) -> None:
        """Check that scales are positive and lengths agree."""
        if len(self.scale) != len(self.zero_point) or not self.scale:
            raise ModelError(
                f"quantization: {len(self.scale)} scales and {len(self.zero_point)} zero points;"
                " give as many of each"
            )
        if self.axis is None and len(self.scale) != 1:
            raise ModelError(f"quantization: {len(self.scale)} scales need an axis")
        if not all(np.isfinite(s) and s > 0 for s in self.scale):
            raise ModelError(f"quantization: scale {min(self.scale)} is not positive and finite")

    def __str__(self) -> str:
        """Return e.g. `s=0.0039 z=-128`, or the range of a per-channel scale."""
        if self.axis is None:
            return f"s={self.scale[0]:.6g} z={self.zero_point[0]}"
        return f"s[{self.axis}]={min(self.scale):.6g}..{max(self.scale):.6g}"


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type (a NumPy name, e.g. "int8"), shape, and quantization or None."""

    dtype: str
    shape: tuple[Dim, ...]
    quantization: Quantization | None = None

    def __str__(self) -> str:
        """Return e.g. `int8[1, 16, 28, 28] {s=0.0039 z=-128}`."""
        text = f"{self.dtype}[{', '.join(map(str, self.shape))}]"
        return f"{text} {{{self.quantization}}}" if self.quantization else text

    @property
    def static_shape(self) -> tuple[int, ...]:
        """The shape once every symbol is bound.

        Raises:
            ModelError: a symbol is left.
        """
        free = [d for d in self.shape if isinstance(d, str)]
        if free:
            raise ModelError(f"shape: dimension {free[0]!r} is not bound; give --shape {free[0]}=1")
        return tuple(d for d in self.shape if isinstance(d, int))


Array = NDArray[np.generic]
"""A tensor's value: any NumPy array."""
