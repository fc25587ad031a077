"""Joins calls of one script for messages of one home into one call. Pure.

A home is one bucket of a topic's index (`Keys.home`). The messages of a home share its index keys. A call for one
message names eleven keys, and Redis sets up the script for each call. For a hundred messages of one home, this set-up
is most of the work of Redis and of the bridge. A script that ends in `for_each` (lua/_record.lua) handles all messages
of a call in one run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from bridge.model.fast_dataclass import fast_dataclass
from bridge.store.replies import Reply, several
from bridge.store.scripts import Script

Answer = TypeVar("Answer")
Answer_co = TypeVar("Answer_co", covariant=True)

MOST: Final = 64
"""The most messages in one call. Such a call takes 1 ms, in which Redis serves nobody else."""

_OWN_KEYS: Final = 2  # record and envelope; the indexes behind them are shared by the messages of one home
_HOME: Final = 2
_LATE: Final = b"late"
_ID: Final = 1
_EACH: Final = 2  # the index of the first answer of `for_each`
_NOW: Final = 0
_UNTIL: Final = 4
OWN_ARGS: Final = 5  # behind the arguments of every script: now, id, retention_ms, tombstone_ms, until_ms


@fast_dataclass(frozen=True, slots=True)
class Call(Generic[Answer_co]):
    """One script with its keys and arguments, ready to run. All its keys are in one cluster slot.

    `read`: converts the script's answer to a value. `topic`: the message's topic, if the script is about a message;
    `read` needs it to make a record.
    """

    script: Script
    read: Callable[[Call[Any], Any], Answer_co]
    keys: tuple[str, ...]
    args: tuple[Any, ...]
    topic: str = ""

    def args_until(self, until_ms: int) -> tuple[Any, ...]:
        """Returns the call's arguments with a time limit among them. `until_ms`: a moment of Redis' clock in Unix ms.
        After it the script changes nothing.

        Returns the arguments unchanged if the script is not about a message, or if the call sets the clock itself, as
        tests do.
        """
        if not self.script.of_record or self.args[_NOW]:
            return self.args
        return (*self.args[:_UNTIL], until_ms, *self.args[OWN_ARGS:])

    @property
    def message_id(self) -> str:
        """The id of the message, if the script is about one message."""
        return str(self.args[_ID])


def plain(read: Callable[[Reply], Answer]) -> Callable[[Call[Any], Reply], Answer]:
    """Makes a `Call.read` from a function that needs only the script's answer."""
    return lambda _, reply: read(reply)


def together(calls: Sequence[Call[object]]) -> list[list[int]]:
    """Groups calls that can be sent as one: same script, same home, at most `MOST`. Returns lists of indexes into
    `calls`. The calls of one home stay in their order."""
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


def as_one(calls: Sequence[Call[object]]) -> Call[object]:
    """Returns one call in place of the calls of one group of `together`. The same `Records` must have built all of
    them."""
    first, *further = calls
    if not further:
        return first
    keys, args = [*first.keys], [*first.args]
    for call in further:
        keys += call.keys[:_OWN_KEYS]
        args.append(call.args[_ID])
        args += call.args[OWN_ARGS:]
    return Call(first.script, first.read, tuple(keys), tuple(args))


def is_late(call: Call[object], answer: Reply) -> bool:
    """Whether Redis got the call after the call's time limit, so that the script changed nothing."""
    return call.script.of_record and several(answer)[0] == _LATE


def answers_of(call: Call[object], answer: Reply) -> Sequence[Reply]:
    """Returns the answers of the calls that were joined into `call`, in order."""
    return several(answer)[_EACH:] if call.script.for_each else [answer]
