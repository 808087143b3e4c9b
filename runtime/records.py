"""Dataclasses from JSON, checked against the types of their fields."""

import dataclasses
import enum
import types
import typing
from collections.abc import Mapping
from typing import Any


def decode(kind: Any, value: Any, where: str) -> Any:
    """Return a JSON value as `kind`, which is a type such as a dataclass's field may have.

    Known are dataclasses, tuples, mappings, unions, enumerations (by the names of their members),
    int, float, str and None.
    `where` names the value in errors.

    Raises:
        ValueError: the value is not of this type, or a table lacks a field or has an unknown one.
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if dataclasses.is_dataclass(kind):
        return _decode_record(kind, value, where)
    if origin in (types.UnionType, typing.Union):
        return _decode_union(arguments, value, where)
    if origin is tuple and isinstance(value, list):
        if arguments[-1] is Ellipsis:
            arguments = (arguments[0],) * len(value)
        if len(arguments) != len(value):
            raise ValueError(f"{where} has {len(value)} entries, not {len(arguments)}")
        pairs = enumerate(zip(arguments, value, strict=True))
        return tuple(decode(each, entry, f"{where}[{i}]") for i, (each, entry) in pairs)
    if origin is Mapping and isinstance(value, dict):
        of_key, of_entry = arguments
        return {
            decode(of_key, key, where): decode(of_entry, entry, f"{where}.{key}")
            for key, entry in value.items()
        }
    if isinstance(kind, enum.EnumMeta):
        if value not in kind.__members__:
            raise ValueError(f"{where}: {value!r} is no {kind.__name__}")
        return kind[value]
    if type(value) is kind or (kind is float and type(value) is int):
        return value
    name = getattr(origin or kind, "__name__", kind)
    raise ValueError(f"{where} is no {name}")


def _decode_record(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"{where} is no table")  # noqa: TRY004  (damage, not misuse)
    hints = typing.get_type_hints(kind)
    names = {field.name for field in dataclasses.fields(kind)}
    for name in sorted(names ^ value.keys()):
        raise ValueError(f"{where} has {'no' if name in names else 'an unknown'} field {name!r}")
    return kind(**{name: decode(hints[name], value[name], f"{where}.{name}") for name in names})


def _decode_union(kinds: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and types.NoneType in kinds:
        return None
    reasons = []
    for kind in kinds:
        try:
            return decode(kind, value, where)
        except ValueError as error:
            reasons.append(str(error))
    raise ValueError(reasons[0])
