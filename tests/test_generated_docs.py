"""The generated pages of docs/ are what `make docs` writes."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "generate_docs", ROOT / "tools" / "generate_docs.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["cli.md", "config.md"])
def test_page_is_up_to_date(name: str) -> None:
    assert (ROOT / "docs" / name).read_text() == generator().PAGES[name](), "run make docs"
