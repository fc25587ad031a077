"""Decides whether a send has the content of the message that has its id already. Pure.

Headers are no part of it: a repeated send may carry another trace context. Neither is the due moment, which the caller
of a repeated send may count from another now.
"""

from __future__ import annotations

from bridge.model.message import Envelope
from bridge.model.values import Draft, Sent
from bridge.store.messages import envelopes


def other_field(kept: Envelope | None, given: Envelope) -> str | None:
    """Returns the field that differs: `body`, `content_type` or `to`. None: they are the same, as far as Redis knows.

    `kept`: what Redis has of the message. It has the digest of a body that is too long to keep.
    """
    if kept is None:
        return None
    if kept.body is not None:
        is_same = kept.body == given.body
    elif kept.body_digest and given.body is not None:
        is_same = kept.body_digest == envelopes.digest(given.body)
    else:
        return None
    if not is_same:
        return "body"
    if kept.content_type != given.content_type:
        return "content_type"
    return None if kept.target == given.target else "to"


def is_same(kept: Envelope | None, given: Envelope) -> bool:
    """Whether Redis knows that the message has this very content, headers included."""
    if kept is None or (kept.body is None and not kept.body_digest):
        return False
    return other_field(kept, given) is None and dict(kept.headers) == dict(given.headers)


def is_repeated(sent: Sent, draft: Draft) -> bool:
    """Whether the draft is a send whose first try was not answered, and whose message has ended since."""
    message = sent.message
    return sent.unanswered and message.record.state.ended and other_field(message.envelope, draft.envelope) is None
