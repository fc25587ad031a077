"""Reads JSON objects of the bridge as dataclasses: RFC 3339 as datetimes, milliseconds as timedeltas. Pure.

A field of the type `timedelta` named `lease` is read from `lease_ms`, or from `lease_s`. Members without a field in the
class are ignored, so that a newer bridge may add members.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
_Convert = Callable[[Any], Any]
_Plan = Sequence[tuple[str, Sequence[tuple[str, _Convert]], bool]]
_plans: Final[dict[type[Any], _Plan]] = {}
_UNITS: Final = {"_ms": timedelta(milliseconds=1), "_s": timedelta(seconds=1)}


def read(cls: type[T], members: Mapping[str, Any]) -> T:
    """Returns the JSON object `members` as a value of the dataclass, by the class' method `from_json` if it has one.

    Raises:
        LookupError, TypeError, ValueError: the object does not fit the class.
    """
    own: Callable[[Mapping[str, Any]], T] | None = getattr(cls, "from_json", None)
    return own(members) if own is not None else cls(**read_fields(cls, members))


def read_fields(cls: type[Any], members: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the dataclass' fields by name. Leaves out a field with a default that the JSON object lacks. Raises
    LookupError if it lacks a field without a default."""
    values: dict[str, Any] = {}
    for name, sources, required in _plan(cls):
        for key, convert in sources:
            if key in members:
                values[name] = convert(members[key])
                break
        else:
            if required:
                raise LookupError(f"{cls.__name__} has no member {sources[0][0]!r}")
    return values


def keys(cls: type[Any]) -> set[str]:
    """Returns the names of the members that the class reads. If a member has several names, returns the first one."""
    return {sources[0][0] for _, sources, _ in _plan(cls)}


def _plan(cls: type[Any]) -> _Plan:
    """Returns for each field of the class its name, the members that may have its value, and whether it is required."""
    if cls not in _plans:
        _plans[cls] = [_planned(field, get_type_hints(cls)[field.name]) for field in fields(cls)]
    return _plans[cls]


def _planned(field: Field[Any], hint: Any) -> tuple[str, Sequence[tuple[str, _Convert]], bool]:
    units = _UNITS if _is_duration(hint) else {"": timedelta()}
    sources = [(field.name + suffix, _converter(hint, unit)) for suffix, unit in units.items()]
    return field.name, sources, field.default is MISSING and field.default_factory is MISSING


def _is_duration(hint: Any) -> bool:
    """Whether the type is `timedelta`, or a list, mapping or union of it."""
    return hint is timedelta or any(_is_duration(inner) for inner in get_args(hint))


def _converter(hint: Any, unit: timedelta) -> _Convert:
    """Returns a function that turns a JSON value into a value of the type. `unit`: the unit of durations in it."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        some = [one for one in inner if one is not type(None)]
        return partial(_optional, _converter(some[0], unit))
    if origin is tuple:
        return partial(_each, _converter(inner[0], unit))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return partial(_each_value, _converter(inner[1], unit))
    if hint is datetime:
        return datetime.fromisoformat
    if hint is timedelta:
        return unit.__mul__
    if is_dataclass(hint) and isinstance(hint, type):
        return partial(read, hint)
    return _as_it_is


def _as_it_is(value: Any) -> Any:
    return value


def _optional(convert: _Convert, value: Any) -> Any:
    return None if value is None else convert(value)


def _each(convert: _Convert, values: Any) -> tuple[Any, ...]:
    return tuple(convert(value) for value in values)


def _each_value(convert: _Convert, values: Any) -> dict[str, Any]:
    return {key: convert(value) for key, value in values.items()}
