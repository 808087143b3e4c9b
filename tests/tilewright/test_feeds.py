"""Inputs from files and at random, and the sizes of symbolic dimensions."""

import re
from pathlib import Path

import numpy as np
import pytest

from tilewright.feeds import (
    infer_shapes,
    parse_shapes,
    random_feeds,
    read_feeds,
    split_samples,
)
from tilewright.hw.errors import ModelError
from tilewright.runtime.tensor import TensorType

TYPES = {"x": TensorType("float32", ("N", 3)), "y": TensorType("int8", ("N", 2))}


def test_sizes_come_from_what_is_given_then_from_the_sample_then_one() -> None:
    sample = {"x": np.zeros((5, 3), np.float32)}
    assert infer_shapes(TYPES, sample, {}) == {"N": 5}
    assert infer_shapes(TYPES, {}, {"N": 4}) == {"N": 4}
    assert infer_shapes(TYPES, {}, {}) == {"N": 1}


@pytest.mark.parametrize(
    ("sample", "given", "message"),
    [
        ({}, {"M": 2}, "--shape M: no such dimension; the model's symbolic ones: N"),
        (
            {"x": np.zeros((5, 3)), "y": np.zeros((4, 2))},
            {},
            "input 'y': dimension N is 4, but 5 elsewhere; give inputs that agree, or --shape N=4",
        ),
    ],
)
def test_sizes_that_contradict_are_refused(
    sample: dict[str, np.ndarray], given: dict[str, int], message: str
) -> None:
    with pytest.raises(ModelError, match=f"^{re.escape(message)}$"):
        infer_shapes(TYPES, sample, given)


def test_shapes_are_parsed_one_by_one_or_in_a_list() -> None:
    assert parse_shapes(["N=1", "S=2,T=3"]) == {"N": 1, "S": 2, "T": 3}


@pytest.mark.parametrize("text", ["N", "N=", "N=0", "N=x", "N=-1"])
def test_a_malformed_shape_is_refused(text: str) -> None:
    message = f"--shape {text!r}: not NAME=SIZE; write e.g. N=1"
    with pytest.raises(ModelError, match=f"^{re.escape(message)}$"):
        parse_shapes([text])


def test_samples_split_along_the_extra_axis() -> None:
    arrays = {"x": np.arange(12).reshape(2, 2, 3), "y": np.arange(8).reshape(2, 2, 2)}
    first, second = split_samples(TYPES, arrays, 2)
    assert first["x"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert second["y"].tolist() == [[4, 5], [6, 7]]


def test_one_sample_may_leave_the_extra_axis_out() -> None:
    plain = {"x": np.zeros((2, 3)), "y": np.zeros((2, 2))}
    extra = {name: array[None] for name, array in plain.items()}
    assert split_samples(TYPES, plain, 1)[0]["x"].shape == (2, 3)
    assert split_samples(TYPES, extra, 1)[0]["x"].shape == (2, 3)


def test_samples_without_their_axis_are_refused() -> None:
    message = (
        "input 'x': shape [2, 3], but 3 samples take [3, N, 3];"
        " stack the inferences along a new first axis"
    )
    with pytest.raises(ModelError, match=f"^{re.escape(message)}$"):
        split_samples(TYPES, {"x": np.zeros((2, 3))}, 3)


def test_random_input_repeats_with_its_seed_and_spans_int8() -> None:
    types = {"x": TensorType("int8", (1000,)), "y": TensorType("float32", (2,))}
    first, again = (random_feeds(types, samples=2, seed=3) for _ in range(2))
    assert first[1]["x"].tolist() == again[1]["x"].tolist()
    assert first[0]["x"].tolist() != first[1]["x"].tolist()
    assert (first[0]["x"].min(), first[0]["x"].max()) == (-128, 127)
    assert first[0]["y"].dtype == np.float32


def test_a_single_array_is_not_an_archive(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros(3))
    message = f"{tmp_path}/x.npy: a single array, not an .npz; write it with np.savez"
    with pytest.raises(ModelError, match=f"^{re.escape(message)}$"):
        read_feeds(tmp_path / "x.npy")


def test_a_missing_input_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=f"^{re.escape(str(tmp_path))}/no.npz: no such file$"):
        read_feeds(tmp_path / "no.npz")


def test_damaged_inputs_are_one_error(tmp_path: Path) -> None:
    path = tmp_path / "in.npz"
    np.savez(path, x=np.arange(400))
    data, rng, refusals = path.read_bytes(), np.random.default_rng(0), []
    for _ in range(200):
        changed = bytearray(data)
        changed[rng.integers(len(data))] = rng.integers(256)
        path.write_bytes(changed)
        try:
            read_feeds(path)
        except ModelError as error:
            refusals.append(str(error))
    assert len(refusals) > 100
    assert all(re.fullmatch(re.escape(f"{path}: ") + ".*", text) for text in refusals)
