"""Names what became of the messages of a batch. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bridge.model.bulk import Failure, Target
from bridge.model.message import Record

BURST: Final = 50
"""The copies that are published together. A burst of 250 made other messages 60 ms late."""

Check = Callable[[], None]
"""Raises an error where the caller may change no more messages."""

Results = dict[Target, Failure | None]
"""The failure of each message, or None where it is changed."""


def is_of(target: Target, record: Record) -> bool:
    """Whether the record is still that of the message: its id may have a new message."""
    return record.created_ms == target.created_ms


def failure(target: Target, record: Record | None) -> Failure:
    """The failure of a message that has changed since it was found."""
    if record is None or not is_of(target, record):
        detail = "the message is gone"
    else:
        detail = f"the message was changed meanwhile: it is {record.state.label}"
    return Failure(target.topic, target.id, detail)
