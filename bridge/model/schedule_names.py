"""Defines the names of schedules. The ids of a schedule's messages begin with its name and `@`, so a name has no `@`
and no slash."""

from __future__ import annotations

import re
from typing import Final

SCHEDULE_PATTERN: Final = r"^[A-Za-z0-9_.-]{1,100}$"

_NAME = re.compile(SCHEDULE_PATTERN[:-1] + r"\Z")


def valid_schedule(name: str) -> bool:
    return _NAME.match(name) is not None
