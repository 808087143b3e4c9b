"""Read `.twp` files; whatever was done to one, it is an error that says so."""

import dataclasses
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tilewright.hw import isa
from tilewright.hw.config import Config
from tilewright.hw.errors import ModelError
from tilewright.hw.isa import Segment
from tilewright.runtime.files import UNREADABLE, array_of, reason_of
from tilewright.runtime.program import (
    FORMAT,
    HostCall,
    Invoke,
    Layer,
    Pack,
    Program,
    Step,
    Tensor,
    Unpack,
)
from tilewright.runtime.records import decode
from tilewright.runtime.verify import verify

_ARRAYS = ("code", "layer_of", "tensor_of", "constants")
_STEPS: dict[Any, Any] = {cls.__name__: cls for cls in (Pack, Unpack, HostCall, Invoke)}


@dataclass(frozen=True, slots=True)
class _Header:
    """`program.json`; its steps, of several kinds, are read on their own."""

    format: int
    isa_version: int
    config_hash: str
    config: Mapping[str, int | str]
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    tensors: tuple[Tensor, ...]
    layers: tuple[Layer, ...]
    segment_bytes: Mapping[Segment, int]
    distinct_workspace_bytes: int
    floor_cycles: int
    host_constants: tuple[str, ...]


def load_program(path: Path | str) -> Program:
    """Read a `.twp` file.

    Raises:
        ModelError: not a program file, damaged, or of another format or ISA version.
        ConfigError: its config cannot be built.
    """
    try:
        archive = zipfile.ZipFile(path)
    except FileNotFoundError:
        raise ModelError(f"{path}: no such file") from None
    except UNREADABLE as error:
        raise ModelError(
            f"{path}: not a tilewright program ({reason_of(error)}); compile the model again"
        ) from error
    with archive:
        try:
            members = {name: archive.read(name) for name in archive.namelist()}
            table = json.loads(members["program.json"])
            arrays = {
                name.removesuffix(".npy"): array_of(data)
                for name, data in members.items()
                if name.endswith(".npy")
            }
        except UNREADABLE as error:
            raise _damaged(path, reason_of(error)) from error
    try:
        return _assembled(path, table, arrays, members.get("model.onnx", b""))
    except ValueError as error:
        raise _damaged(path, reason_of(error)) from error


def _damaged(path: Path | str, what: str) -> ModelError:
    return ModelError(f"{path}: damaged program file ({what}); compile the model again")


def _assembled(
    path: Path | str, table: Any, arrays: Mapping[str, NDArray[Any]], model: bytes
) -> Program:
    """Return the program of a header and arrays; damage is a ValueError."""
    if not isinstance(table, dict):
        raise ValueError("program.json is no table")  # noqa: TRY004  (damage, not misuse)
    made = (table.get("format"), table.get("isa_version"))
    if all(type(version) is int for version in made) and made != (FORMAT, isa.VERSION):
        raise ModelError(
            f"{path}: program format {made[0]}, ISA {made[1]};"
            f" this tilewright reads format {FORMAT}, ISA {isa.VERSION}; compile the model again"
        )
    steps = table.pop("steps", None)
    if not isinstance(steps, list):
        raise ValueError("program.json has no steps")  # noqa: TRY004  (damage)
    try:
        header: _Header = decode(_Header, table, "program.json")
    except ModelError as error:
        raise ValueError(str(error)) from error
    machine: dict[str, Any] = dict(header.config)
    if machine.keys() != {each.name for each in dataclasses.fields(Config)}:
        raise ValueError("its config has other fields")
    config = Config(**machine)
    if f"{config.config_hash:016x}" != header.config_hash:
        raise ModelError(
            f"{path}: its config hash does not match its config; compile the model again"
        )
    expected = [*_ARRAYS, *(f"host/{i}" for i in range(len(header.host_constants)))]
    for name in expected:
        if name not in arrays:
            raise ValueError(f"there is no {name}.npy")
    program = Program(
        name=header.name,
        config=config,
        inputs=header.inputs,
        outputs=header.outputs,
        tensors=header.tensors,
        layers=header.layers,
        steps=tuple(_step_from_json(step, f"steps[{i}]") for i, step in enumerate(steps)),
        code=arrays["code"],
        layer_of=arrays["layer_of"],
        tensor_of=arrays["tensor_of"],
        constants=arrays["constants"],
        host_constants={name: arrays[f"host/{i}"] for i, name in enumerate(header.host_constants)},
        segment_bytes=header.segment_bytes,
        distinct_workspace_bytes=header.distinct_workspace_bytes,
        floor_cycles=header.floor_cycles,
        model=model,
    )
    verify(program)
    return program


def _step_from_json(table: Any, where: str) -> Step:
    kind = table.pop("kind", None) if isinstance(table, dict) else None
    if kind not in _STEPS:
        raise ValueError(f"{where} is of no known kind")
    step: Step = decode(_STEPS[kind], table, where)
    return step
