"""Decides whether a send has the content of the message that already has its id. Pure.

`other_field` does not compare headers, because a repeated send may have another trace context. Nor does it compare due
moments: the caller of a repeated send may count the delay from a later moment.
"""

from __future__ import annotations

import json
from decimal import Decimal

from bridge.model.media_types import is_json
from bridge.model.message import Envelope
from bridge.model.values import Draft, Sent
from bridge.store.messages import envelopes


def other_field(kept: Envelope | None, given: Envelope) -> str | None:
    """Returns the first field that differs: `body`, `content_type` or `to`. None: no difference is known. Without the
    body or its digest in Redis, the function compares nothing.

    `kept`: the content that Redis has of the message, with a digest in place of a body that is too long to keep; None:
    Redis has nothing. `given`: the content of the send.
    """
    if kept is None:
        return None
    if kept.body is not None:
        is_same = kept.body == given.body or (
            given.body is not None and is_json(given.content_type) and _is_same_value(kept.body, given.body)
        )
    elif kept.body_digest and given.body is not None:
        is_same = kept.body_digest == envelopes.digest_of_body(given.body)
    else:
        return None
    if not is_same:
        return "body"
    if kept.content_type != given.content_type:
        return "content_type"
    return None if kept.target == given.target else "to"


def is_same(kept: Envelope | None, given: Envelope) -> bool:
    """Whether the message certainly has the content of the send, headers included. `kept`: the content that Redis has
    of the message; None: nothing. `given`: the content of the send."""
    if kept is None or (kept.body is None and not kept.body_digest):
        return False
    return other_field(kept, given) is None and dict(kept.headers) == dict(given.headers)


def is_repeated(sent: Sent, draft: Draft) -> bool:
    """Whether the draft repeats an earlier send that was never answered with success, and whose message has ended.
    `sent`: the result of sending the draft now; its `message` is the message of the earlier send."""
    message = sent.message
    return sent.unanswered and message.record.state.ended and other_field(message.envelope, draft.envelope) is None


def _is_same_value(one: bytes, other: bytes) -> bool:
    """Whether both texts are JSON with equal values. So `1.0` equals `1.00`, and a character equals its escape. False
    for texts that Python can't compare: with deep nesting, or with exponents of twenty digits."""
    try:
        return _parsed(one) == _parsed(other)
    except (ValueError, RecursionError, ArithmeticError):
        return False


def _parsed(document: bytes) -> object:
    # In a pair, so that no number equals true or false.
    return json.loads(document, parse_int=_number, parse_float=_number)


def _number(text: str) -> tuple[str, Decimal]:
    return "number", Decimal(text)
