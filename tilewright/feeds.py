"""Inputs of a run: read from `.npz`, or drawn at random; and the shapes they imply."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tilewright.hw.errors import ModelError
from tilewright.runtime.files import UNREADABLE, reason_of
from tilewright.runtime.tensor import Array, TensorType

Types = Mapping[str, TensorType]
Feeds = dict[str, Array]


def read_feeds(path: Path) -> Feeds:
    """Return the arrays of an `.npz` file by name.

    Raises:
        ModelError: no such file, or not an archive of plain arrays.
    """
    try:
        with path.open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ModelError(f"{path}: a single array, not an .npz; write it with np.savez")
            arrays = {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise ModelError(f"{path}: no such file") from None
    except UNREADABLE as error:
        raise ModelError(
            f"{path}: not an .npz of arrays ({reason_of(error)}); use np.savez"
        ) from error
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise ModelError(f"{path}: {name} is not an array; use np.savez")
    return arrays


def parse_shapes(texts: Sequence[str]) -> dict[str, int]:
    """Return {"N": 1} of `--shape` texts such as "N=1" or "N=1,S=8".

    Raises:
        ModelError: a text that is not NAME=SIZE with a positive size.
    """
    shapes = {}
    for text in (part for group in texts for part in group.split(",")):
        name, equals, size = (word.strip() for word in text.partition("="))
        if not equals or not size.isdecimal() or int(size) < 1:
            raise ModelError(f"--shape {text!r}: not NAME=SIZE; write e.g. N=1")
        shapes[name] = int(size)
    return shapes


def infer_shapes(
    types: Types, sample: Mapping[str, Array], given: Mapping[str, int]
) -> dict[str, int]:
    """Return a size for every symbolic dimension: as given, else as in the sample, else 1.

    Raises:
        ModelError: a given name that is no symbolic dimension, or a sample that contradicts it.
    """
    symbols = {dim for kind in types.values() for dim in kind.shape if isinstance(dim, str)}
    for name in given:
        if name not in symbols:
            known = ", ".join(sorted(symbols)) or "none"
            raise ModelError(
                f"--shape {name}: no such dimension; the model's symbolic ones: {known}"
            )
    shapes = dict(given)
    for name, kind in types.items():
        if name not in sample or sample[name].ndim != len(kind.shape):
            continue
        for dim, size in zip(kind.shape, sample[name].shape, strict=True):
            if isinstance(dim, str) and shapes.setdefault(dim, size) != size:
                raise ModelError(
                    f"input {name!r}: dimension {dim} is {size}, but {shapes[dim]} elsewhere;"
                    f" give inputs that agree, or --shape {dim}={size}"
                )
    return shapes | {name: 1 for name in symbols if name not in shapes}


def split_samples(types: Types, arrays: Feeds, samples: int) -> list[Feeds]:
    """Return one dict a sample from arrays with a leading axis of `samples`.

    With one sample the extra axis may be left out.

    Raises:
        ModelError: an array whose leading axis is not `samples`.
    """
    ranks = {name: len(kind.shape) for name, kind in types.items()}
    stacked = any(array.ndim == ranks.get(name, -1) + 1 for name, array in arrays.items())
    if samples == 1 and not stacked:
        return [arrays]
    for name, array in arrays.items():
        wanted = f"[{samples}, {', '.join(map(str, types[name].shape))}]" if name in types else "?"
        if name in types and (
            array.shape[:1] != (samples,) or array.ndim != len(types[name].shape) + 1
        ):
            raise ModelError(
                f"input {name!r}: shape {list(array.shape)}, but {samples} samples take {wanted};"
                " stack the inferences along a new first axis"
            )
    return [
        {name: array[i] if name in types else array for name, array in arrays.items()}
        for i in range(samples)
    ]


def random_feeds(types: Types, *, samples: int, seed: int) -> list[Feeds]:
    """Return random inputs: standard normal floats, integers of 8 bits over their whole range.

    Wider integers, which are mostly indices, are drawn from [0, 8); booleans are fair coins.
    """
    rng = np.random.default_rng(seed)
    return [{name: _random(kind, rng) for name, kind in types.items()} for _ in range(samples)]


def _random(kind: TensorType, rng: np.random.Generator) -> Array:
    dtype = np.dtype(kind.dtype)
    if dtype.kind == "f":
        return rng.standard_normal(kind.static_shape).astype(dtype)
    if dtype.kind == "b":
        return rng.integers(0, 2, kind.static_shape).astype(dtype)
    if dtype.itemsize == 1:
        info = np.iinfo(dtype)
        return rng.integers(info.min, info.max, kind.static_shape, dtype=dtype, endpoint=True)
    return rng.integers(0, 8, kind.static_shape).astype(dtype)
