"""Packed layouts: round trips, and what a fold puts where."""

import numpy as np
import pytest

from tilewright.hw.config import Config
from tilewright.runtime.packing import Fold, Packing

SHAPE = (3, 2, 7, 9)
FOLDS = (
    Fold(rows=1, columns=5, step=1, width=9, top=0, left=2, fill=-3),
    Fold(rows=2, columns=3, step=2, width=5, top=1, left=1, fill=7),
    Fold(rows=3, columns=4, step=3, width=3, top=0, left=0, fill=0),
)


def image(rng: np.random.Generator) -> np.ndarray:
    return rng.integers(-128, 128, SHAPE).astype(np.int8)


@pytest.mark.parametrize("fold", [None, *FOLDS])
@pytest.mark.parametrize("text", ["tiny", "batch=4,block_in=8,block_out=32"])
def test_unpacking_gives_back_what_was_packed(text: str, fold: Fold | None) -> None:
    packing = Packing.of(SHAPE, "int8", Config.parse(text), fold=fold)
    x = image(np.random.default_rng(0))
    data = packing.pack(x)
    assert data.shape == (packing.num_bytes,)
    np.testing.assert_array_equal(packing.unpack(data), x)


@pytest.mark.parametrize("fold", FOLDS)
def test_folded_channels_are_the_window_s_rows_and_columns(fold: Fold) -> None:
    x = image(np.random.default_rng(1))
    folded = fold.fold(x)
    assert folded.shape == fold.shape(SHAPE)
    for index in np.ndindex(folded.shape):
        n, channel, h, w = index
        tap, c = divmod(channel, SHAPE[1])
        row = h * fold.rows + tap // fold.columns - fold.top
        column = w * fold.step + tap % fold.columns - fold.left
        inside = 0 <= row < SHAPE[2] and 0 <= column < SHAPE[3]
        assert folded[index] == (x[n, c, row, column] if inside else fold.fill)


def test_columns_that_no_window_reads_come_back_as_fill() -> None:
    fold = Fold(rows=1, columns=1, step=2, width=4, top=0, left=0, fill=9)
    x = image(np.random.default_rng(2))
    back = fold.unfold(fold.fold(x), SHAPE)
    np.testing.assert_array_equal(back[..., :8:2], x[..., :8:2])
    assert (back[..., 1::2] == 9).all()
