"""Compares two states of the servers, name by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Final

from tests.soak.topics import PASSING
from topology.names import Names


class Kind(StrEnum):
    """What is counted. The value begins the line that names a remainder."""

    KEY = "Redis key"  # with its members, if it has some
    QUEUE = "queue"  # 1, and its messages
    EXCHANGE = "exchange"
    BINDING = "binding"
    CONNECTION = "connection to RabbitMQ"
    CHANNEL = "channel"
    CONSUMER = "consumer"
    FILE = "open file"
    THREAD = "thread"
    TASK = "task"
    LABELS = "labels in /metrics"
    ENTRIES = "entries in memory"  # of the containers of the bridge's own objects
    OBJECTS = "objects in memory"  # by type
    MEMORY = "bytes of memory"


State = Mapping[Kind, Mapping[str, int]]
"""How many there are of each name, by kind. Every kind is there."""

Allowed = Callable[[Kind, str, int], int]
"""Returns how much more there may be of a name that was there so many times. Above 0: it may also be less."""

_SHOWN: Final = 20  # names of a kind
_OF_MESSAGES: Final = ("/m/", "/b/", "/places/")  # in the names of keys


def remainders(before: State, after: State, allowed: Allowed) -> list[str]:
    """Returns a line for each name that did not return to its amount. Of each kind, twenty lines at most."""
    lines: list[str] = []
    for kind in Kind:
        of_kind = _of_kind(kind, Counter(before[kind]), Counter(after[kind]), allowed)
        lines += of_kind[:_SHOWN]
        if len(of_kind) > _SHOWN:
            lines.append(f"{kind}: and {len(of_kind) - _SHOWN} more")
    return lines


def _of_kind(kind: Kind, before: Counter[str], after: Counter[str], allowed: Allowed) -> list[str]:
    changes = {name: after[name] - before[name] for name in {**before, **after}}
    wrong = set()
    for name, change in changes.items():
        most = allowed(kind, name, before[name])
        if change > most or (change < 0 and not most):
            wrong.add(name)
    return [
        f"{kind} {name}: {before[name]:,} before, {after[name]:,} after"
        for name in sorted(wrong, key=lambda name: (-abs(changes[name]), name))
    ]


def unfinished(state: State) -> list[str]:
    """Returns a line for each record, each note about an id, each queue's messages and each queue of a removed topic.
    None of them exists after everything has expired."""
    records = [f"{Kind.KEY} {name}" for name in state[Kind.KEY] if any(part in name for part in _OF_MESSAGES)]
    queued = [
        f"{Kind.QUEUE} {name}: {count - 1:,} messages"
        for name, count in state[Kind.QUEUE].items()
        if count > 1 and name not in Names().probes  # which keep the message of the latest probe
    ]
    removed = [f"{Kind.QUEUE} {name} of a removed topic" for name in state[Kind.QUEUE] if f".{PASSING}" in name]
    return [*records[:_SHOWN], *queued, *removed]
