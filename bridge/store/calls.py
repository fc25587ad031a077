"""A call of a script, and which calls go over the line as one. Pure.

A call for one message names ten keys, and Redis has to set up the script's run: for a hundred messages of one home that
is most of the work on both sides. A script that ends in `for_each` (lua/_record.lua) does them all in one run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from bridge.model.fast_dataclass import fast_dataclass
from bridge.store.scripts import Script

MOST: Final = 64
"""Messages in one call, for which everybody else at Redis waits: 1 ms."""

_OWN_KEYS: Final = 2  # record and envelope; behind them the indexes, which those of one home share
_HOME: Final = 2
_ID: Final = 1
_EACH: Final = 2  # where the answers of `for_each` begin
_OWN_ARGS: Final = 4  # before them what all calls have: now, id, retention_ms, tombstone_ms


@fast_dataclass(frozen=True, slots=True)
class Call:
    """One script with its keys and arguments, ready to run. All its keys are in one slot of a cluster.

    `topic`: for a script about a message, the message's topic, with which the answer becomes a record.
    """

    script: Script
    keys: tuple[str, ...]
    args: tuple[Any, ...]
    topic: str = ""

    @property
    def message_id(self) -> str:
        """The id of the message that a script about a message is called for."""
        return str(self.args[_ID])


def together(calls: Sequence[Call]) -> list[list[int]]:
    """The places of the calls, in order, by which can be one: of the same script for messages of one home. The calls of
    a home stay in their order."""
    groups: list[list[int]] = []
    latest: dict[str, list[int]] = {}
    for at, call in enumerate(calls):
        if not call.script.of_record:
            latest.clear()
            groups.append([at])
            continue
        group = latest.get(call.keys[_HOME])
        if group and call.script.for_each and call.script is calls[group[0]].script and len(group) < MOST:
            group.append(at)
        else:
            latest[call.keys[_HOME]] = group = [at]
            groups.append(group)
    return groups


def as_one(calls: Sequence[Call]) -> Call:
    """The call that stands for calls which `together` found, all built by the same `Records`."""
    first, *further = calls
    if not further:
        return first
    keys, args = [*first.keys], [*first.args]
    for call in further:
        keys += call.keys[:_OWN_KEYS]
        args.append(call.args[_ID])
        args += call.args[_OWN_ARGS:]
    return Call(first.script, tuple(keys), tuple(args))


def answers_of(call: Call, answer: list[Any]) -> list[Any]:
    """What each of the calls that one stood for is answered, in order."""
    return answer[_EACH:] if call.script.for_each else [answer]
