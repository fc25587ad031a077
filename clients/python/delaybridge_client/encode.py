"""Writes arguments in the forms that the bridge reads: durations in milliseconds, instants in RFC 3339. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, Final
from urllib.parse import quote

from delaybridge_client.errors import InvalidArgument

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)


class Unset(Enum):
    """The type of UNSET, which means that an argument is not given."""

    UNSET = "UNSET"

    def __repr__(self) -> str:
        return self.name


UNSET: Final = Unset.UNSET
"""The value of an argument that was not given, where None has another meaning."""


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A JSON value of the user, which is written unchanged. A datetime in it is an error, because JSON has no
    datetimes."""

    value: Any


def given(**members: Any) -> dict[str, Any]:
    """Returns the members that are not None."""
    return {name: value for name, value in members.items() if value is not None}


def changed(**members: Any) -> dict[str, Any]:
    """Returns the members that are not UNSET. None stays, and becomes null in JSON."""
    return {name: value for name, value in members.items() if value is not UNSET}


def milliseconds(duration: timedelta) -> int:
    """Returns the duration in whole milliseconds, rounded up, so that nothing is early."""
    return -(-duration // _MS)


def instant(moment: datetime, field: str) -> str:
    """Returns the moment in UTC, rounded up to milliseconds, such as `2026-01-31T09:00:00.000Z`. `field`: for errors.

    Raises:
        InvalidArgument: the moment has no time zone.
    """
    if moment.utcoffset() is None:
        raise InvalidArgument(
            f"{field}: {moment.isoformat()} has no time zone, so it names no moment; "
            "use an aware datetime, such as datetime.now(UTC) + timedelta(hours=2)"
        )
    whole = _EPOCH + milliseconds(moment - _EPOCH) * _MS
    return whole.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def document(members: Mapping[str, Any]) -> bytes:
    """Returns the members as a JSON object.

    Raises:
        InvalidArgument: JSON can't express one of the members.
    """
    plain = {name: _plain(value, name) for name, value in members.items()}
    try:
        return json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgument(f"the arguments can't be written as JSON: {error}") from error


def parameters(members: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Returns the members as query parameters. Each value of a list is a parameter, and a mapping gives `key:value`."""
    return [(name, text) for name, value in members.items() for text in _texts(value, name)]


def path(template: str, values: Mapping[str, str]) -> str:
    """Returns the template with each `{name}` replaced by its value. A value is one segment of the path, even with a
    slash or dots in it."""
    return template.format_map({name: _segment(value) for name, value in values.items()})


def _segment(value: str) -> str:
    quoted = quote(value, safe="")
    return quoted.replace(".", "%2E") if quoted in {".", ".."} else quoted


def _plain(value: Any, name: str) -> Any:
    """Returns the value in a form that JSON has. `name`: the value's place in the request, for errors, such as
    `messages.3.delay`."""
    match value:
        case Verbatim():
            return value.value
        case datetime():
            return instant(value, name)
        case timedelta():
            return milliseconds(value)
        case Mapping():
            return {key: _plain(one, f"{name}.{key}") for key, one in value.items()}
        case list() | tuple():
            return [_plain(one, f"{name}.{index}") for index, one in enumerate(value)]
        case _:
            return value


def _texts(value: Any, name: str) -> Iterable[str]:
    match value:
        case Mapping():
            return [f"{key}:{one}" for key, one in value.items()]
        case list() | tuple() | set() | frozenset():
            return [text for one in value for text in _texts(one, name)]
        case bool():
            return ["true" if value else "false"]
        case _:
            return [str(_plain(value, name))]
