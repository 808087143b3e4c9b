"""The packed DRAM layout of activation tensors.

A logical [N, C, H, W] tensor lies as [N/BATCH][C/U][H][W][U/SUB][BATCH][SUB] with
U = max(block_in, block_out) and SUB = min(block_in, block_out): a row of tiles of either
kind is contiguous.  Tails of N and C are padded with `fill`.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.hw.config import Config


@dataclass(frozen=True, slots=True)
class Packing:
    """How a tensor of shape (N, C, H, W) and element type `dtype` lies in a segment."""

    shape: tuple[int, int, int, int]
    dtype: str
    batch: int
    lanes: int
    sub_lanes: int
    fill: int = 0

    @classmethod
    def of(
        cls, shape: tuple[int, int, int, int], dtype: str, config: Config, *, fill: int = 0
    ) -> "Packing":
        """Return the packing that a config's tiles need."""
        return cls(shape, dtype, config.batch, config.channel_lanes, config.sub_lanes, fill)

    @property
    def blocks(self) -> tuple[int, int, int, int, int, int, int]:
        """The packed array's shape."""
        n, c, h, w = self.shape
        return (
            -(-n // self.batch),
            -(-c // self.lanes),
            h,
            w,
            self.lanes // self.sub_lanes,
            self.batch,
            self.sub_lanes,
        )

    @property
    def num_bytes(self) -> int:
        """Bytes that the packed tensor takes."""
        return int(np.prod(self.blocks)) * np.dtype(self.dtype).itemsize

    def pack(self, x: NDArray[np.generic]) -> NDArray[np.uint8]:
        """Return the packed bytes, flat, of x[N, C, H, W] of this dtype."""
        n, c, h, w = self.shape
        nb, cb, _, _, subs, batch, sub = self.blocks
        full = np.full((nb * batch, cb * self.lanes, h, w), self.fill, self.dtype)
        full[:n, :c] = x.reshape(self.shape)
        packed = full.reshape(nb, batch, cb, subs, sub, h, w).transpose(0, 2, 5, 6, 3, 1, 4)
        return np.ascontiguousarray(packed).view(np.uint8).reshape(-1)

    def unpack(self, data: NDArray[np.uint8]) -> NDArray[np.generic]:
        """Return x[N, C, H, W] from its packed bytes."""
        n, c, h, w = self.shape
        nb, cb, _, _, subs, batch, sub = self.blocks
        packed = np.ascontiguousarray(data[: self.num_bytes]).view(self.dtype).reshape(self.blocks)
        full = packed.transpose(0, 5, 1, 4, 6, 2, 3).reshape(nb * batch, cb * subs * sub, h, w)
        return np.ascontiguousarray(full[:n, :c])
