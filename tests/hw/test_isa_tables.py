from pathlib import Path

import pytest

from tilewright.hw.isa_tables import TABLE, fill, tables

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "isa.md"


def test_document_is_up_to_date() -> None:
    # Renew it with `python tools/isa_tables.py`.
    text = DOCUMENT.read_text()
    assert text == fill(text)


def test_document_shows_every_table() -> None:
    shown = {match[2] for match in TABLE.finditer(DOCUMENT.read_text())}
    assert set(tables()) == shown


def test_fill_keeps_what_is_outside_the_markers() -> None:
    text = "before\n<!-- table: rounding -->\nold\n<!-- end -->\nafter\n"
    assert fill(text) == (
        "before\n<!-- table: rounding -->\n| code | name |\n| --- | --- |\n| 0 | FLOOR |\n"
        "| 1 | HALF_EVEN |\n| 2 | HALF_AWAY |\n<!-- end -->\nafter\n"
    )


def test_a_marker_without_a_table_is_an_error() -> None:
    with pytest.raises(KeyError, match="nothing"):
        fill("<!-- table: nothing -->\n<!-- end -->\n")


def test_every_field_has_its_bits_and_meaning() -> None:
    assert "| 46:15 | `offset` | unsigned | 0 | byte offset in the segment |\n" in tables()["load"]
    assert "| 225:217 | `low` | signed | -128 | least value stored |\n" in tables()["store"]
