"""Renew the generated tables of `docs/isa.md`."""

from pathlib import Path

from tilewright.hw.isa_tables import fill

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "isa.md"


def main() -> None:
    """Rewrite the document in place."""
    DOCUMENT.write_text(fill(DOCUMENT.read_text()))


if __name__ == "__main__":
    main()
