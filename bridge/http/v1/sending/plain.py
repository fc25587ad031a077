"""Checks the most common messages by hand: a JSON body with optional id, delay, time to live and retries.

This costs half of what the pydantic model costs. A test checks that the model accepts each of these messages with the
same result. The model gets all other messages, and writes every error.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from bridge.http import exact_json
from bridge.http.v1.contract.scalars import MAX_RETRIES
from bridge.model.durations import parse_duration_ms
from bridge.model.message import Envelope, is_path_step, may_be_sent
from bridge.model.values import MAX_DELAY_MS, Draft, IfExists

_FIELDS = frozenset({"body", "id", "delay", "ttl", "max_retry"})


def plain_draft(topic: str, message: Any, max_body_bytes: int, body: bytes | None = None) -> Draft | None:
    """Returns the message as a draft with a JSON body; None if the model has to decide.

    `body`: the message's body as compact JSON, if `sent_json` has written it; None: not yet.
    """
    if type(message) is not dict or "body" not in message or not _FIELDS.issuperset(message):
        return None
    delay_ms, ttl_ms, max_retry = message.get("delay"), message.get("ttl"), message.get("max_retry")
    if type(delay_ms) is str:
        delay_ms = _duration_ms(delay_ms)
        if delay_ms is None:
            return None
    if delay_ms is not None and not (type(delay_ms) is int and 0 <= delay_ms <= MAX_DELAY_MS):
        return None
    if ttl_ms is not None and not (type(ttl_ms) is int and 1 <= ttl_ms <= MAX_DELAY_MS):
        return None
    if max_retry is not None and not (type(max_retry) is int and 0 <= max_retry <= MAX_RETRIES):
        return None
    message_id = message.get("id")
    if message_id is not None and not (
        type(message_id) is str and may_be_sent(message_id) and not is_path_step(message_id)
    ):
        return None
    if body is None:
        try:
            body = exact_json.dumps(message["body"])
        except TypeError:
            return None
    if len(body) > max_body_bytes:
        return None
    return Draft(
        topic=topic,
        envelope=Envelope(body=body),
        id=message_id,
        delay_ms=delay_ms,
        ttl_ms=ttl_ms,
        max_retry=max_retry,
        if_exists=IfExists.SAME,
    )


@lru_cache(maxsize=1_024)
def _duration_ms(text: str) -> int | None:
    try:
        return parse_duration_ms(text)
    except ValueError:
        return None
