"""Defines the results of a batch of changes, one for each message. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from bridge.model.bulk import Failure, Target
from bridge.model.message import Record

BURST: Final = 50
"""The most copies that are published together. A burst of 250 made other messages 60 ms late."""

Check = Callable[[], None]
"""A function that raises an error if the caller may change no more messages, for example because its lease has
ended."""

Results = dict[Target, Failure | None]
"""For each message, why it could not be changed; None if it was changed."""


def is_of(target: Target, record: Record) -> bool:
    """Whether the record still belongs to the target's message, as the creation moment tells. A new message may have
    taken the id by now."""
    return record.created_ms == target.created_ms


def failure(target: Target, record: Record | None) -> Failure:
    """Returns the failure for a message that has changed since it was found. `record`: the message's present record;
    None: the record is gone."""
    if record is None or not is_of(target, record):
        detail = "the message is gone"
    else:
        detail = f"the message was changed meanwhile: it is {record.state.label}"
    return Failure(target.topic, target.id, detail)
