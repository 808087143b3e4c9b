"""What doctor finds, and what it says of what it does not."""

from pathlib import Path

from tilewright.doctor import run_checks


def test_everything_is_found_where_every_program_is(tmp_path: Path) -> None:
    checks = run_checks(tmp_path / "cache", which=lambda name: f"/usr/bin/{name}")
    assert [check.name for check in checks if not check.ok] == []
    assert list(tmp_path.iterdir()) == []


def test_a_missing_compiler_and_a_folder_that_cannot_be_made_are_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    checks = run_checks(tmp_path / "file" / "cache", which=lambda _: None)
    missing = {check.name: check.remedy for check in checks if not check.ok and check.required}
    assert missing == {
        "C++ compiler": "install g++, e.g. apt-get install g++",
        "cache folder": f"make {tmp_path / 'file' / 'cache'} writable",
    }
