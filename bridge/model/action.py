"""Defines an operator's action: a call that changes topics, dead letters, subscriptions or tokens.

The operations of the API say by themselves whether they are actions (`http/v1/operation.py`). `What` names all others.
A client's ordinary life is none: it sends, pulls and settles, and moves or deletes a single message.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

NO_TOKEN: Final = "anybody"
COMMAND_LINE: Final = "command line"
LMSTFY: Final = "lmstfy"


class What(StrEnum):
    """The actions beside those of the API: on the command line, over the wires of other queues, and the end of an
    operation."""

    TOKEN_CREATE = "token_create"
    TOKEN_REVOKE = "token_revoke"
    REPAIR = "repair"
    RESTORE = "restore"
    OPERATION_ENDED = "operation_ended"
    EMPTY_READY = "empty_ready"
    REPLAY_MANY = "replay_many"
    DROP_MANY = "drop_many"
    ONLINE = "camellia_online"
    OFFLINE = "camellia_offline"
    LMSTFY_TOKEN_CREATE = "lmstfy_token_create"
    LMSTFY_TOKEN_DELETE = "lmstfy_token_delete"
    LMSTFY_LIMIT_PUT = "lmstfy_limit_put"
    LMSTFY_LIMIT_DELETE = "lmstfy_limit_delete"
    LMSTFY_ACCESS_LOG = "lmstfy_access_log"


@dataclass(frozen=True, kw_only=True, slots=True)
class Action:
    """One action.

    `who`: the id of the token; or one of the words above: no token was asked for, the command line, or lmstfy's wire,
    whose tokens have no ids. `name`: the token's name. `target`: the id of the message or token, or the namespace of
    lmstfy's token, that the action is about. `count`: the messages that it changed; None if it is not about messages.
    `done`: False if a server did not answer, and the call may be done in part. `request_id`: "" on the command line.
    """

    what: str
    who: str
    name: str | None = None
    topic: str | None = None
    target: str | None = None
    count: int | None = None
    done: bool = True
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class Recorded:
    """An action with its moment in Unix ms, and its place among the actions of that millisecond."""

    at_ms: int
    place: int
    action: Action


@dataclass(frozen=True, slots=True)
class ActionPage:
    """Actions, the newest first. `next_cursor`: None on the last page."""

    items: list[Recorded]
    next_cursor: str | None
