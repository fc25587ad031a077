"""Whether a token may do something."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.access.errors import NotAllowed
from bridge.access.token import Scope, Token


@dataclass(frozen=True, kw_only=True, slots=True)
class Need:
    """What an operation needs: a scope, on its topic or on every topic. `rated`: it counts as one of the token's
    requests a second in the scope's direction."""

    scope: Scope
    every_topic: bool = False
    rated: bool = False


def may(token: Token, need: Need, topic: str | None = None) -> NotAllowed | None:
    """Why not, or None: it may. Without a topic only what can be said before one is known.

    The topic need not exist: a refusal says nothing of that.
    """
    if need.scope is not Scope.LOOK and need.scope not in token.scopes:
        has = ", ".join(token.scopes)
        message = f"this needs a token with the scope {need.scope}; this token's: {has}"
    elif need.every_topic and not token.every_topic:
        message = "this needs a token for every topic"
    elif topic is not None and not token.reaches(topic):
        message = "this token is not for this topic"
    else:
        return None
    return NotAllowed(message, token_id=token.id, scope=need.scope)
