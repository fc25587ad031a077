"""Decides whether a token allows a request."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.access.errors import NotAllowed
from bridge.access.token import Scope, Token


@dataclass(frozen=True, kw_only=True, slots=True)
class Need:
    """What an operation requires of its caller's token. `scope`: the token must have it. `every_topic`: the token must
    allow all topics. `rated`: a request counts against the token's limit of requests a second."""

    scope: Scope
    every_topic: bool = False
    rated: bool = False


def may(token: Token, need: Need, topic: str | None = None) -> NotAllowed | None:
    """Returns the error that refuses a request; None: the token allows the request. `topic` None: no topic is checked.

    The refusal does not depend on whether the topic exists, so it reveals no topic.
    """
    if need.scope is not Scope.LOOK and need.scope not in token.scopes:
        has = ", ".join(token.scopes)
        message = f"this request needs a token with the scope {need.scope}; this token has {has}"
    elif need.every_topic and not token.every_topic:
        message = "this request needs a token for every topic"
    elif topic is not None and not token.reaches(topic):
        message = "this token may not use this topic"
    else:
        return None
    return NotAllowed(message, token_id=token.id, scope=need.scope)


def may_send_to(token: Token, exchange: str) -> NotAllowed | None:
    """Returns the error that refuses a message to this exchange of another application; None: the token allows it."""
    if token.sends_to(exchange):
        return None
    allowed = ", ".join(token.targets) or "none"
    message = f"this token may not send to the exchange {exchange!r}; its targets: {allowed}"
    return NotAllowed(message, token_id=token.id, scope=Scope.SEND)
