"""Result files: checked before the work, equal for equal results, whole or not there."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tilewright.hw.errors import ModelError
from tilewright.outputs import check_folder, check_writable, whole_file, write_folder, write_npz
from tilewright.runtime.files import write_whole


def test_npz_has_equal_bytes_for_equal_arrays_and_reads_back(tmp_path: Path) -> None:
    arrays = {"x/in:0": np.arange(6).reshape(2, 3), "y": np.float32([1.5])}
    for name in ("a.npz", "b.npz"):
        write_npz(tmp_path / name, arrays)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    with np.load(tmp_path / "a.npz") as read:
        assert read["x/in:0"].tolist() == [[0, 1, 2], [3, 4, 5]]
        assert read["y"].dtype == np.float32


def test_a_folder_that_can_be_made_is_not_made_by_its_check(tmp_path: Path) -> None:
    check_folder(tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []
    paths = write_folder(tmp_path / "a" / "b", {"x.txt": b"1", "y.txt": b"2"})
    assert [path.read_bytes() for path in paths] == [b"1", b"2"]
    assert sorted(p.name for p in (tmp_path / "a" / "b").iterdir()) == ["x.txt", "y.txt"]


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r": is a folder; give the name of a file$"):
        check_writable(tmp_path)


def test_standard_output_and_no_output_can_always_be_written() -> None:
    for path in (Path("-"), None):
        assert check_writable(path) is None


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "w.vcd"
    path.write_text("of an earlier run")

    def interrupted() -> None:
        with whole_file(path) as partial:
            partial.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "of an earlier run"
    with whole_file(path) as partial:
        partial.write_text("whole")
        assert path.read_text() == "of an earlier run"
    assert path.read_text() == "whole"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_nobody_asked_for_has_no_name() -> None:
    with whole_file(None) as partial:
        assert partial is None


def test_a_link_stays_a_link_and_a_file_keeps_its_mode(tmp_path: Path) -> None:
    target, link = tmp_path / "real.npz", tmp_path / "link.npz"
    target.touch(mode=0o600)
    link.symlink_to(target.name)
    write_whole(link, b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o600
    assert sorted(tmp_path.iterdir()) == [link, target]


def test_a_pipe_is_written_through(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as pool:
        read = pool.submit(pipe.read_bytes)
        check_writable(pipe)
        write_whole(pipe, b"through")
        assert read.result(timeout=10) == b"through"
    assert pipe.is_fifo()
