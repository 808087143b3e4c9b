"""What a command shows while it works: something on a terminal, nothing in a file or pipe."""

import io

import pytest
from rich.console import Console

from tilewright.commands.terminal import Terminal
from tilewright.hw.config import Config


class Screen(io.StringIO):
    """A standard error that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def shown_while_building(
    monkeypatch: pytest.MonkeyPatch,
    error: io.StringIO,
    *,
    quiet: bool = False,
    config: str = "tiny",
) -> str:
    monkeypatch.setattr("sys.stderr", error)
    with Terminal(Console(quiet=quiet), None).building(Config.parse(config)):
        pass
    return error.getvalue()


def test_a_build_is_shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    text = shown_while_building(monkeypatch, Screen())
    assert "building the simulator of tiny, kept for the next time …" in text
    assert "minutes" not in text
    large = shown_while_building(monkeypatch, Screen(), config="tiny,block_in=32,block_out=32")
    assert "1024 multipliers take minutes" in " ".join(large.split())


def test_a_build_is_not_shown_elsewhere_or_when_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown_while_building(monkeypatch, io.StringIO()) == ""
    assert shown_while_building(monkeypatch, Screen(), quiet=True) == ""
