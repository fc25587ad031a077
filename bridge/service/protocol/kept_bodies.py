"""Decides how large a message's body may be for Redis to keep it. Pure."""

from __future__ import annotations

from bridge.model.values import Policy
from bridge.settings.settings import Settings


def keep_body_max(settings: Settings, policy: Policy, *, of_wire: bool = False) -> int:
    """Returns the largest body that Redis keeps of a topic's messages, in bytes; 0: none.

    `of_wire`: a client of a wire sent the message (`Draft.of_wire`).
    """
    if policy.keep_body_max is not None:
        return policy.keep_body_max
    return settings.largest_kept_of_wires if of_wire else settings.keep_body_max
