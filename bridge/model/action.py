"""Defines an operator's action: a call that changes topics, dead letters, subscriptions, schedules or tokens, or many
messages at once.

Each operation of the API declares whether it is an action (`http/v1/operation/`). `ActionName` lists the actions
outside the API. A client's ordinary calls are no actions: to send, pull and settle, and to move or delete a single
message.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

NO_TOKEN: Final = "anybody"
COMMAND_LINE: Final = "command line"
LMSTFY: Final = "lmstfy"


class ActionName(StrEnum):
    """The actions outside the API: on the command line, over the wires of other queues, and the end of a bulk
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
    """One action of an operator.

    `what`: which action, such as an `ActionName`. `who`: the id of the caller's token, or one of the constants above:
    `NO_TOKEN` if the bridge requires no token, `COMMAND_LINE`, or `LMSTFY` for lmstfy's wire, whose tokens have no ids.
    `name`: the token's name. `target`: the id or name of the message, token, schedule or bulk operation that the action
    is about, or the namespace of lmstfy's token. `count`: how many messages the action changed; None if it is not about
    messages. `done`: False if a server did not answer, so the action may be done in part. `request_id`: "" on the
    command line.
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
    """An action as the record of actions has it. `at_ms`: when, in Unix ms. `place`: tells apart the actions of one
    millisecond, in their order."""

    at_ms: int
    place: int
    action: Action


@dataclass(frozen=True, slots=True)
class ActionPage:
    """Actions, the newest first. `next_cursor`: None on the last page."""

    items: list[Recorded]
    next_cursor: str | None
