"""The packed DRAM layout of activation tensors.

A logical [N, C, H, W] tensor lies as [N/BATCH][C/U][H][W][U/SUB][BATCH][SUB] with
U = max(block_in, block_out) and SUB = min(block_in, block_out): a row of tiles of either
kind is contiguous.  Tails of N and C are padded with `fill`.  A `Fold` moves rows and columns
of a window into the channels first, so that a layer of few channels fills whole tiles.  Axes
in another order are brought to [N, C, H, W] before all that.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.hw.config import Config

Shape4 = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class Fold:
    """Rows and columns of a window as channels.

    Folded element (n, (r·columns + k)·C + c, h, w) is the tensor's element
    (n, c, h·rows + r − top, w·step + k − left), or `fill`, in stored units, out of it.
    So each row is at one place; columns that windows share are repeated.
    """

    rows: int
    columns: int
    step: int
    width: int
    top: int
    left: int
    fill: int

    def shape(self, shape: Shape4) -> Shape4:
        """Return the folded shape of a tensor of a shape (N, C, H, W)."""
        n, c, h, _ = shape
        return n, self.rows * self.columns * c, -(-(h + self.top) // self.rows), self.width

    def fold(self, x: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return the folded array of x[N, C, H, W]."""
        n, channels, height, width = self.shape(x.shape)
        border = self._border(x.shape, x.dtype)
        self._inside(border, x.shape)[:] = x[:, :, :, : border.shape[3] - self.left]
        folded = np.empty((n, self.rows, self.columns, x.shape[1], height, width), x.dtype)
        for r, k in np.ndindex(self.rows, self.columns):
            folded[:, r, k] = self._taps(border, r, k)
        return folded.reshape(n, channels, height, width)

    def unfold(self, folded: NDArray[np.generic], shape: Shape4) -> NDArray[np.generic]:
        """Return x of a shape [N, C, H, W] from its folded array; `fill` where no window reads."""
        parts = folded.reshape(len(folded), self.rows, self.columns, shape[1], *folded.shape[2:])
        border = self._border(shape, folded.dtype)
        for r, k in np.ndindex(self.rows, self.columns):
            self._taps(border, r, k)[:] = parts[:, r, k]
        x = np.full(shape, self.fill, folded.dtype)
        inside = self._inside(border, shape)
        x[:, :, :, : inside.shape[3]] = inside
        return x

    def _border(self, shape: Shape4, dtype: np.dtype[np.generic]) -> NDArray[np.generic]:
        """The tensor with its padding, as wide as the windows reach, all `fill`."""
        n, channels, height, _ = shape
        height = -(-(height + self.top) // self.rows) * self.rows
        width = (self.width - 1) * self.step + self.columns
        return np.full((n, channels, height, width), self.fill, dtype)

    def _inside(self, border: NDArray[np.generic], shape: Shape4) -> NDArray[np.generic]:
        """What the tensor fills of its border."""
        rows, columns = slice(self.top, self.top + shape[2]), slice(self.left, self.left + shape[3])
        return border[:, :, rows, columns]

    def _taps(self, border: NDArray[np.generic], row: int, column: int) -> NDArray[np.generic]:
        """The elements that one row and column of every window meet."""
        end = column + (self.width - 1) * self.step + 1
        return border[:, :, row :: self.rows, column : end : self.step]


@dataclass(frozen=True, slots=True)
class Packing:
    """How a tensor of element type `dtype` lies in a segment.

    It is [N, C, H, W] of a shape, once its axes are split into `factors` and these are put in
    `order`; without factors it is so as it stands.
    """

    shape: Shape4
    dtype: str
    batch: int
    lanes: int
    sub_lanes: int
    fill: int = 0
    fold: Fold | None = None
    factors: tuple[int, ...] = ()
    order: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        shape: Shape4,
        dtype: str,
        config: Config,
        *,
        fill: int = 0,
        fold: Fold | None = None,
        factors: tuple[int, ...] = (),
        order: tuple[int, ...] = (),
    ) -> "Packing":
        """Return the packing that a config's tiles need."""
        lanes, sub_lanes = config.channel_lanes, config.sub_lanes
        return cls(shape, dtype, config.batch, lanes, sub_lanes, fill, fold, factors, order)

    @property
    def folded_shape(self) -> Shape4:
        """The shape (N, C, H, W) that is cut into tiles."""
        return self.fold.shape(self.shape) if self.fold else self.shape

    @property
    def blocks(self) -> tuple[int, int, int, int, int, int, int]:
        """The packed array's shape."""
        n, c, h, w = self.folded_shape
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
        return math.prod(self.blocks) * np.dtype(self.dtype).itemsize

    def pack(self, x: NDArray[np.generic]) -> NDArray[np.uint8]:
        """Return the packed bytes, flat, of x of this dtype."""
        n, c, h, w = self.folded_shape
        if self.factors:
            x = x.reshape(self.factors).transpose(self.order)
        x = x.reshape(self.shape)
        x = self.fold.fold(x) if self.fold else x
        nb, cb, _, _, subs, batch, sub = self.blocks
        full = np.full((nb * batch, cb * self.lanes, h, w), self.fill, self.dtype)
        full[:n, :c] = x
        packed = full.reshape(nb, batch, cb, subs, sub, h, w).transpose(0, 2, 5, 6, 3, 1, 4)
        return np.ascontiguousarray(packed).view(np.uint8).reshape(-1)

    def unpack(self, data: NDArray[np.uint8]) -> NDArray[np.generic]:
        """Return x from its packed bytes: [N, C, H, W], or its factors."""
        n, c, h, w = self.folded_shape
        nb, cb, _, _, subs, batch, sub = self.blocks
        packed = np.ascontiguousarray(data[: self.num_bytes]).view(self.dtype).reshape(self.blocks)
        full = packed.transpose(0, 5, 1, 4, 6, 2, 3).reshape(nb * batch, cb * subs * sub, h, w)
        whole = np.ascontiguousarray(full[:n, :c])
        x = self.fold.unfold(whole, self.shape) if self.fold else whole
        if not self.factors:
            return x
        ordered = x.reshape([self.factors[i] for i in self.order])
        back = [self.order.index(i) for i in range(len(self.order))]
        return np.ascontiguousarray(ordered.transpose(back))
