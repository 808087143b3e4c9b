"""The CONSTANTS segment in the making: weights, parameters and uops, each stored once."""

import numpy as np
from numpy.typing import NDArray

ALIGNMENT = 64
"""The widest AXI beat, in bytes."""


class ConstantPool:
    """Byte arrays laid one after another; equal ones share a place."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        self._places: dict[bytes, int] = {}
        self._size = 0

    def add(self, data: NDArray[np.generic]) -> int:
        """Return the offset of the data's bytes."""
        raw = np.ascontiguousarray(data).tobytes()
        if raw not in self._places:
            padded = raw + bytes(-len(raw) % ALIGNMENT)
            self._places[raw] = self._size
            self._chunks.append(padded)
            self._size += len(padded)
        return self._places[raw]

    def segment(self) -> NDArray[np.uint8]:
        """Return the segment's bytes."""
        return np.frombuffer(b"".join(self._chunks), np.uint8)
