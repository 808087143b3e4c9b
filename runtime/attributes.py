"""Typed access to a node's attributes; a wrong or missing one is a ModelError."""

from collections.abc import Mapping

from tilewright.hw.errors import ModelError
from tilewright.runtime.program import Attribute

Attributes = Mapping[str, Attribute]


def _get(attributes: Attributes, key: str, default: Attribute | None) -> Attribute:
    value = attributes.get(key, default)
    if value is None:
        raise ModelError(f"attribute {key} is missing")
    return value


def get_int(attributes: Attributes, key: str, default: int | None = None) -> int:
    """Return an integer attribute, or the default."""
    value = _get(attributes, key, default)
    if not isinstance(value, int):
        raise ModelError(f"attribute {key}={value!r} is not an integer")
    return value


def get_float(attributes: Attributes, key: str, default: float | None = None) -> float:
    """Return a real attribute, or the default."""
    value = _get(attributes, key, default)
    if not isinstance(value, (int, float)):
        raise ModelError(f"attribute {key}={value!r} is not a number")
    return float(value)


def get_str(attributes: Attributes, key: str, default: str | None = None) -> str:
    """Return a string attribute, or the default."""
    value = _get(attributes, key, default)
    if not isinstance(value, str):
        raise ModelError(f"attribute {key}={value!r} is not a string")
    return value


def get_ints(
    attributes: Attributes, key: str, default: tuple[int, ...] | None = None
) -> tuple[int, ...]:
    """Return a list of integers, or the default."""
    value = _get(attributes, key, default)
    if not isinstance(value, tuple):
        raise ModelError(f"attribute {key}={value!r} is not a list of integers")
    integers = tuple(v for v in value if isinstance(v, int))
    if len(integers) != len(value):
        raise ModelError(f"attribute {key}={value!r} is not a list of integers")
    return integers
