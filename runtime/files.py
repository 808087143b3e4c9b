"""Files: archives whose damage is an expected error, and results written whole or not at all."""

import io
import os
import secrets
import struct
import tokenize
import zipfile
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tilewright.hw.errors import ModelError

UNREADABLE = (
    OSError,
    EOFError,
    MemoryError,
    ArithmeticError,
    LookupError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)
"""What `zipfile`, `json` and NumPy raise on bytes that were changed or cut."""


def reason_of(error: BaseException) -> str:
    """Return the first line of an error, or its kind where it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def array_of(data: bytes) -> NDArray[np.generic]:
    """Return the array of `.npy` bytes; damaged ones raise one of `UNREADABLE`."""
    array: NDArray[np.generic] = np.load(io.BytesIO(data), allow_pickle=False)
    return array


def refusal(path: Path, error: OSError) -> ModelError:
    """Return the error of a file that cannot be written."""
    return ModelError(
        f"{path}: cannot be written ({error.strerror}); choose a folder you may write to"
    )


def is_stream(path: Path) -> bool:
    """Return whether a path is a pipe or device, or a name of an open file: written through."""
    return path.is_relative_to("/dev") or (
        path.exists() and not path.is_file() and not path.is_dir()
    )


def partial_of(path: Path) -> Path:
    """Return a name beside a file that no other writer uses, to write before it is renamed."""
    return path.with_name(f".{path.name[:200]}.{os.getpid()}-{secrets.token_hex(4)}.partial")


def put_in_place(partial: Path, path: Path) -> None:
    """Rename a finished file to `path`, with the mode of the file it replaces."""
    if path.exists():
        partial.chmod(path.stat().st_mode & 0o7777)
    partial.replace(path)


def make_folder(path: Path) -> None:
    """Make a folder, and those above it, unless it is there.

    Raises:
        ModelError: a part of the path is a file, or refuses.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise refusal(path, error) from error


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that it is there whole or not at all.

    A link stays a link and its target is written; a pipe or device is written through.

    Raises:
        ModelError: the folder is missing or cannot be written.
    """
    try:
        if is_stream(path):
            with path.open("wb") as stream:
                stream.write(data)
            return
        target = Path(os.path.realpath(path))
        partial = partial_of(target)
        try:
            partial.write_bytes(data)
            put_in_place(partial, target)
        finally:
            if target.parent.is_dir():
                partial.unlink(missing_ok=True)
    except OSError as error:
        raise refusal(path, error) from error
