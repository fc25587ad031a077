"""Converts jobs, as Youzan's wire and its descendants have them, to messages and back.

Each job has its own TTR, which is its lease when one of these wires pops it, and it is redelivered for ever. A job's
topic and id may be any text. If the bridge does not allow the text as a name, the topic or id contains a digest of it.
A header of the message then carries the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from bridge.model.errors import InvalidRequest
from bridge.model.message import Envelope, Message, valid_id, valid_topic
from bridge.model.values import MAX_DELAY_MS, Draft

FOR_EVER: Final = (1 << 31) - 1
"""The number of retries: at one a second they last for 68 years."""

LONGEST_S: Final = MAX_DELAY_MS // 1_000
LONGEST_NAME: Final = 1_000

_TTR, _DELAY, _TOPIC, _ID = "job-ttr", "job-delay", "job-topic", "job-id"
_CONTENT_TYPE: Final = "text/plain; charset=utf-8"
_FORBIDDEN: Final = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A job as its client sees it. `delay_s` and `ttr_s` are as the client gave them."""

    topic: str
    id: str
    delay_s: int
    ttr_s: int
    body: str


def topic_of(name: str) -> str:
    """Returns the bridge's topic for a job's topic."""
    return name if valid_topic(name) else f"{_FORBIDDEN.sub('-', name)[:60]}.{_digest(name)}"


def id_of(job_id: str) -> str:
    """Returns the bridge's id for a job's id."""
    return job_id if valid_id(job_id) else f"job-{_digest(job_id)}"


def draft_of(job: Job, *, max_body: int) -> Draft:
    """Returns the message to send for a job.

    Raises:
        InvalidRequest: a name, the body or the delay is too long.
    """
    for name, value in (("topic", job.topic), ("id", job.id)):
        if len(value.encode()) > LONGEST_NAME:
            raise InvalidRequest.of(name, value[:200], LONGEST_NAME, f"must have at most {LONGEST_NAME} bytes")
    body = job.body.encode()
    if len(body) > max_body:
        raise InvalidRequest.of("body", len(body), max_body, f"must have at most {max_body} bytes")
    if job.delay_s > LONGEST_S:
        raise InvalidRequest.of("delay", job.delay_s, LONGEST_S, "must be at most 999 days")
    headers: dict[str, int | str] = {_TTR: min(job.ttr_s, LONGEST_S), _DELAY: job.delay_s}
    topic, message_id = topic_of(job.topic), id_of(job.id)
    if topic != job.topic:
        headers[_TOPIC] = job.topic
    if message_id != job.id:
        headers[_ID] = job.id
    return Draft(
        topic=topic,
        envelope=Envelope(content_type=_CONTENT_TYPE, headers=headers, body=body),
        id=message_id,
        delay_ms=job.delay_s * 1_000,
        max_retry=FOR_EVER,
        of_wire=True,
    )


def job_of(message: Message) -> Job:
    """Returns a message as a job. If another wire sent it, `ttr_s` is 0, and `delay_s` counts from its creation."""
    record, envelope = message.record, message.envelope or Envelope()
    return Job(
        topic=str(envelope.headers.get(_TOPIC, record.topic)),
        id=str(envelope.headers.get(_ID, record.id)),
        delay_s=_seconds(envelope, _DELAY, max(0, record.due_ms - record.created_ms) // 1_000),
        ttr_s=_seconds(envelope, _TTR, 0),
        body=(envelope.body or b"").decode(errors="replace"),
    )


def is_job(message: Message) -> bool:
    """Returns whether one of these wires sent the message."""
    return message.envelope is not None and _TTR in message.envelope.headers


def lease_ms(envelope: Envelope) -> int | None:
    """Returns the job's TTR, or None to lease for the topic's default."""
    return _seconds(envelope, _TTR, 0) * 1_000 or None


def _seconds(envelope: Envelope, name: str, default: int) -> int:
    value = envelope.headers.get(name)
    return value if isinstance(value, int) and 0 <= value <= LONGEST_S else default


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:32]
