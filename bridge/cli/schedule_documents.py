"""Reads schedules from a TOML or JSON file. Its table `schedules` has a table for each schedule, with the members that
`PUT /v1/schedules/{name}` takes."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from datetime import date, datetime, time
from pathlib import Path
from typing import Any, Final

from bridge.model.message import is_path_step
from bridge.model.schedule_names import SCHEDULE_PATTERN, valid_schedule

_LARGEST: Final = 16 * 1024 * 1024
_MEMBER: Final = "schedules"


class BadScheduleFile(Exception):
    """The file can't be read, or is no file of schedules. The text names the file."""


def schedule_documents(path: Path) -> Mapping[str, Any]:
    """Returns the schedules of a file by name, each with the members that the file has. A file whose name ends in
    `.json` is JSON; every other file is TOML.

    Raises:
        BadScheduleFile: the file can't be read, is malformed, or has a wrong name of a schedule.
    """
    try:
        with path.open("rb") as file:
            text = file.read(_LARGEST + 1)
        if len(text) > _LARGEST:
            raise BadScheduleFile(f"{path}: has more than {_LARGEST} bytes")
        whole = json.loads(text) if path.suffix == ".json" else tomllib.loads(text.decode())
    except OSError as error:
        raise BadScheduleFile(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise BadScheduleFile(f"{path}: is no {'JSON' if path.suffix == '.json' else 'TOML'}: {error}") from None
    found = whole.get(_MEMBER, {}) if isinstance(whole, dict) else None
    if not isinstance(found, dict) or whole.keys() - {_MEMBER}:
        raise BadScheduleFile(f"{path}: must have tables [{_MEMBER}.NAME] alone, one for each schedule")
    for name in found:
        if not valid_schedule(name) or is_path_step(name):
            raise BadScheduleFile(
                f'{path}: the name {name[:100]!r} must match {SCHEDULE_PATTERN}, and be neither "." nor ".."'
            )
    return {name: _as_json(document) for name, document in found.items()}


def _as_json(value: Any) -> Any:
    """Returns the value with each date or time of TOML as an ISO 8601 text."""
    if isinstance(value, dict):
        return {name: _as_json(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_as_json(member) for member in value]
    return value.isoformat() if isinstance(value, datetime | date | time) else value
