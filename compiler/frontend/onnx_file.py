"""Reading an ONNX file into a protobuf whose weights are all inside, or saying what is wrong."""

from collections.abc import Iterator
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx.external_data_helper import load_external_data_for_tensor

from tilewright.hw.errors import ModelError

MIN_OPSET = 10
"""The first with QuantizeLinear and QLinearConv."""
MAX_OPSET = onnx.defs.onnx_opset_version()

_VARINT, _BYTES = 0, 2
_FIELDS = {1: _VARINT, 2: _BYTES, 3: _BYTES, 4: _BYTES, 5: _VARINT, 6: _BYTES, 7: _BYTES, 8: _BYTES}
"""Wire types of ModelProto's fields, to tell a truncated file from a foreign one."""


def read_model(path: Path) -> tuple[onnx.ModelProto, bytes]:
    """Return the model, external data loaded, and the bytes of an equal self-contained file.

    Raises:
        ModelError: no such file, not an ONNX file, truncated, weights missing, wrong opset.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise ModelError(f"{path}: no such file") from None
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror})") from error
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError:
        raise ModelError(_why_unreadable(path, data)) from None
    if not model.HasField("graph") or not model.opset_import:
        raise ModelError(_why_unreadable(path, data))
    _check_opset(path, model)
    if _load_external(path, model):
        data = model.SerializeToString()
    return model, data


def _why_unreadable(path: Path, data: bytes) -> str:
    foreign = f"{path}: not an ONNX file; give an .onnx model or a .twp program"
    at = 0
    while at < len(data):
        try:
            key, at = _varint(data, at)
            if _FIELDS.get(key >> 3, _BYTES) != key & 7 or not 0 < key >> 3 < 30:
                return foreign
            size, at = _varint(data, at)
        except IndexError:
            break
        at += size if key & 7 == _BYTES else 0
    if at > len(data):
        return f"{path}: truncated: {len(data)} bytes of at least {at}; copy the file again"
    if not data:
        return f"{path}: empty file; copy the file again"
    if data[0] != 1 << 3:
        return foreign
    return f"{path}: damaged or truncated ONNX file of {len(data)} bytes; copy the file again"


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _check_opset(path: Path, model: onnx.ModelProto) -> None:
    for opset in model.opset_import:
        main = opset.domain in {"", "ai.onnx"}
        if main and not MIN_OPSET <= opset.version <= MAX_OPSET:
            raise ModelError(
                f"{path}: opset {opset.version} of ai.onnx; opsets {MIN_OPSET} to {MAX_OPSET} are"
                " read; convert the model with onnx.version_converter"
            )


def _tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors


def _load_external(path: Path, model: onnx.ModelProto) -> bool:
    found = False
    for tensor in _tensors(model.graph):
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            continue
        found = True
        info = {entry.key: entry.value for entry in tensor.external_data}
        weights = path.parent / info.get("location", "")
        name = f"{path}: weight {tensor.name!r}"
        if not weights.is_file():
            raise ModelError(
                f"{name} is stored in {weights}, which does not exist; put it beside the model"
            )
        try:
            end = int(info.get("offset", 0)) + int(info.get("length", 0))
        except ValueError:
            raise ModelError(
                f"{name} has offset={info.get('offset', 0)!r} and length={info.get('length', 0)!r},"
                " not both numbers; export the model again"
            ) from None
        if end > weights.stat().st_size:
            raise ModelError(
                f"{name} needs {end} bytes of {weights}, which has {weights.stat().st_size};"
                " copy the file again"
            )
        try:
            load_external_data_for_tensor(tensor, str(path.parent))
        except (OSError, ValueError, onnx.checker.ValidationError) as error:
            raise ModelError(f"{name} cannot be read from {weights} ({error})") from error
        tensor.data_location = onnx.TensorProto.DEFAULT
        del tensor.external_data[:]
    return found
