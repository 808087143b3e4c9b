"""Damaged program files: one error that says so, whatever was done to them."""

import io
import json
import random
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.hw.errors import ModelError
from tilewright.runtime.load import load_program
from tilewright.runtime.program import Program

Members = dict[str, bytes]


@pytest.fixture
def saved(two_layers: Program, tmp_path: Path) -> Path:
    """A program file."""
    two_layers.save(tmp_path / "p.twp")
    return tmp_path / "p.twp"


def members_of(path: Path) -> Members:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def refusal(path: Path, members: Members) -> str:
    """Return what is said about the file once it has these members."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with pytest.raises(ModelError) as raised:
        load_program(path)
    found = re.fullmatch(
        re.escape(str(path)) + r": damaged program file \((.*)\); compile the model again",
        str(raised.value),
    )
    assert found, raised.value
    return found[1]


def edited(path: Path, edit: Callable[[Any], object]) -> str:
    members = members_of(path)
    header = json.loads(members["program.json"])
    edit(header)
    return refusal(path, members | {"program.json": json.dumps(header).encode()})


def with_array(path: Path, name: str, array: np.ndarray) -> str:
    raw = io.BytesIO()
    np.save(raw, array)
    return refusal(path, members_of(path) | {f"{name}.npy": raw.getvalue()})


def test_a_saved_program_is_read_back(saved: Path, two_layers: Program) -> None:
    read = load_program(saved)
    for name in ("config", "tensors", "layers", "steps", "segment_bytes", "inputs", "outputs"):
        assert getattr(read, name) == getattr(two_layers, name)
    assert read.code.tolist() == two_layers.code.tolist()


def test_every_field_of_the_header_is_needed_and_typed(saved: Path) -> None:
    data = saved.read_bytes()
    for name in json.loads(members_of(saved)["program.json"]):
        for edit in (lambda h, n=name: h.pop(n), lambda h, n=name: h.update({n: None})):
            saved.write_bytes(data)
            assert name in edited(saved, edit)


@pytest.mark.parametrize(
    ("edit", "what"),
    [
        (lambda h: h["segment_bytes"].update(INPUT=1 << 40), "segment sizes are not those of"),
        (lambda h: h["segment_bytes"].update(INPUT=-1), "segment sizes are not those of"),
        (lambda h: h["tensors"][0]["placement"].update(offset=-4096), "tensor x lies at -4096"),
        (lambda h: h["tensors"][0]["type"].update(dtype="object"), "tensor x is of 'object'"),
        (lambda h: h["steps"][1].update(count=99), "step main runs instructions that are not"),
        (lambda h: h["steps"][0].update(kind="Jump"), "steps[0] is of no known kind"),
        (lambda h: h["inputs"].append("z"), "there is no tensor 'z'"),
        (lambda h: h["steps"].pop(), "an output is not made"),
        (lambda h: h["layers"][0].update(extra=1), "layers[0] has an unknown field 'extra'"),
        (lambda h: h["layers"].pop(), "a step is for layer 2"),
    ],
)
def test_parts_that_do_not_fit_are_named(
    saved: Path, edit: Callable[[Any], object], what: str
) -> None:
    assert what in edited(saved, edit)


def test_arrays_have_their_shapes_and_types(saved: Path, two_layers: Program) -> None:
    data = saved.read_bytes()
    for name, array in (
        ("code", two_layers.code.astype(np.float32)),
        ("code", two_layers.code.reshape(-1)),
        ("layer_of", two_layers.layer_of[:1]),
        ("tensor_of", two_layers.tensor_of[:1]),
        ("tensor_of", two_layers.tensor_of + 99),
        ("constants", two_layers.constants.astype(np.int64)),
    ):
        saved.write_bytes(data)
        assert with_array(saved, name, array).startswith(name)


def test_a_newer_format_is_said_before_anything_else(saved: Path) -> None:
    members = members_of(saved) | {"program.json": b'{"format": 99, "isa_version": 1}'}
    with zipfile.ZipFile(saved, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    with pytest.raises(ModelError, match="program format 99, ISA 1; this tilewright reads"):
        load_program(saved)


def test_changed_and_cut_bytes_are_refused_or_harmless(saved: Path, tmp_path: Path) -> None:
    data, rng, refusals = saved.read_bytes(), random.Random(0), []
    path = tmp_path / "changed.twp"
    for _ in range(200):
        changed = bytearray(data)
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        if rng.random() < 0.3:
            changed = changed[: rng.randrange(len(data))]
        path.write_bytes(changed)
        try:
            load_program(path)
        except ModelError as error:
            refusals.append(str(error))
    assert len(refusals) > 100
    assert all(re.fullmatch(re.escape(f"{path}: ") + ".*", text) for text in refusals)
