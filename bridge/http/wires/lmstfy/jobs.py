"""Converts messages to jobs as this wire shows them, and attributes to headers and back."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any, Final

from bridge.http.wires.lmstfy.answers import Refusal
from bridge.model.message import Message, Record, State

Job = dict[str, Any]

MAX_ATTRIBUTES: Final = 16
_MAX_KEY: Final = 32
_MAX_VALUE: Final = 128
_HEADER: Final = "job-attr-"


def exists(record: Record, now_ms: float) -> bool:
    """Returns whether this wire shows the job: a living job that has not expired, or a dead letter."""
    if record.state is State.DEAD:
        return record.forget_ms == 0
    return not record.state.ended and not 0 < record.expires_ms <= now_ms


def remaining_tries(record: Record) -> int:
    return max(0, record.max_retry + 1 - record.attempts)


def shown(message: Message, namespace: str, queue: str, now_ms: float, *, remain_tries: int) -> Job:
    """Returns the message as lmstfy shows a job, with sorted keys. The member `data` is None if the body was not kept.
    `now_ms`: Unix ms."""
    record, envelope = message.record, message.envelope
    body = None if envelope is None else envelope.body
    return {
        "attributes": None if envelope is None else attributes_of(envelope.headers),
        "data": None if body is None else b64encode(body).decode(),
        "elapsed_ms": max(0, int(now_ms - record.created_ms)),
        "job_id": record.id,
        "namespace": namespace,
        "queue": queue,
        "remain_tries": remain_tries,
        "ttl": _ttl_s(record, now_ms),
    }


def attributes_of(headers: Mapping[str, Any]) -> dict[str, str] | None:
    attributes = {name.removeprefix(_HEADER): str(value) for name, value in headers.items() if name.startswith(_HEADER)}
    return dict(sorted(attributes.items())) or None


def headers_of(request_headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Returns a job's attributes, which are request headers named `job-attr-…`, as headers of a message. Cuts an
    attribute's name to 32 bytes, and its value to 128.

    Raises:
        Refusal: there are more than 16 attributes.
    """
    attributes: dict[str, str] = {}
    for name, value in request_headers:
        key = name.decode("latin-1").lower()
        if key.startswith(_HEADER) and value:
            key = key[: len(_HEADER) + _MAX_KEY]
            attributes.setdefault(key, value[:_MAX_VALUE].decode(errors="replace"))
    if len(attributes) > MAX_ATTRIBUTES:
        raise Refusal(400, error=f"too many attributes, cannot exceed {MAX_ATTRIBUTES}")
    return attributes


def _ttl_s(record: Record, now_ms: float) -> int:
    """Returns the seconds until the job expires, rounded as Redis rounds a TTL, and at least 1. 0 means never.

    Dead letters never expire.
    """
    if not record.expires_ms or record.state is State.DEAD:
        return 0
    return max(1, int(record.expires_ms - now_ms + 500) // 1_000)
