"""Where results go: checked before the long work, written whole or not at all at its end."""

import io
import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from tilewright.hw.errors import ModelError
from tilewright.runtime.files import (
    is_stream,
    make_folder,
    partial_of,
    put_in_place,
    refusal,
    write_whole,
)
from tilewright.runtime.tensor import Array

STDOUT = "-"
ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The date of every archive member, so that equal results give equal files."""


def check_writable(path: Path | None) -> None:
    """Check that a file can be written; None and "-" always can.

    Raises:
        ModelError: its folder is missing or refuses, or it is a folder itself.
    """
    if path is None or str(path) == STDOUT:
        return
    if path.is_dir():
        raise ModelError(f"{path}: is a folder; give the name of a file")
    if not is_stream(path):
        _try_in(Path(os.path.realpath(path)).parent, path)


def check_results(paths: Mapping[str, Path | None], *, json_path: Path | None = None) -> None:
    """Check that the files that options name can be written, and that no two are the same.

    Only `json_path` may be "-".

    Raises:
        ModelError: one cannot be written, or two options name one file.
    """
    options: dict[str, str] = {}
    for option, path in {**paths, "--json": json_path}.items():
        if path is None or (option == "--json" and str(path) == STDOUT):
            continue
        if str(path) == STDOUT:
            raise ModelError(f"{option} -: cannot go to standard output; give the name of a file")
        check_writable(path)
        other = options.setdefault(os.path.realpath(path), option)
        if other != option and not is_stream(path):
            raise ModelError(f"{path}: {other} and {option} name one file; give two names")


def check_folder(path: Path | None) -> None:
    """Check that a folder can be made, or written into where it exists; None always can.

    Raises:
        ModelError: a part of the path is a file, or refuses.
    """
    if path is None:
        return
    nearest = path
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    _try_in(nearest, path)


def _try_in(folder: Path, path: Path) -> None:
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise refusal(path, error) from error


@contextmanager
def whole_file(path: Path | None) -> Iterator[Path | None]:
    """Give a name to write a file under that becomes `path` at the end, unless anything fails."""
    if path is None:
        yield None
        return
    if is_stream(path):
        yield path
        return
    target = Path(os.path.realpath(path))
    partial = partial_of(target)
    try:
        yield partial
        put_in_place(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def write_folder(folder: Path, files: dict[str, bytes]) -> list[Path]:
    """Write files into a folder, made if need be, each whole or not at all; return their paths.

    Raises:
        ModelError: the folder cannot be made or written.
    """
    paths = []
    for name, data in files.items():
        path = folder / name
        make_folder(path.parent)
        write_whole(path, data)
        paths.append(path)
    return paths


def write_npz(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays by name, whole or not at all.

    Raises:
        ModelError: the file cannot be written.
    """
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in arrays.items():
            raw = io.BytesIO()
            np.save(raw, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", ZIP_EPOCH), raw.getvalue())
    write_whole(path, data.getvalue())
