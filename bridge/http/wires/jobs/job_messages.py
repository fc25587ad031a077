"""Converts jobs of Youzan's wire and its descendants to messages and back.

Each job has its own TTR (time to run): the length of its lease when one of these wires pops it. A job that nobody
finishes is redelivered for ever. A job's topic and id may be any text (`digested_names.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from bridge.http.wires import digested_names
from bridge.http.wires.digested_names import topic_of
from bridge.model.errors import InvalidRequest
from bridge.model.message import Envelope, Message, id_of
from bridge.model.values import MAX_DELAY_MS, Draft

FOR_EVER: Final = (1 << 31) - 1
"""The number of retries of every job: at one a second they last for 68 years."""

LONGEST_S: Final = MAX_DELAY_MS // 1_000

_TTR, _DELAY = "job-ttr", "job-delay"
_CONTENT_TYPE: Final = "text/plain; charset=utf-8"


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """A job as its client sees it. `topic`, `id`, `delay_s` and `ttr_s` (time to run) are as the client gave them."""

    topic: str
    id: str
    delay_s: int
    ttr_s: int
    body: str


def draft_of(job: Job, *, max_body: int) -> Draft:
    """Returns the message to send for a job.

    Raises:
        InvalidRequest: a name, the body or the delay is too long.
    """
    digested_names.check("topic", job.topic)
    digested_names.check("id", job.id)
    body = job.body.encode()
    if len(body) > max_body:
        raise InvalidRequest.of("body", len(body), max_body, f"must have at most {max_body} bytes")
    if job.delay_s > LONGEST_S:
        raise InvalidRequest.of("delay", job.delay_s, LONGEST_S, "must be at most 999 days")
    terms = {_TTR: min(job.ttr_s, LONGEST_S), _DELAY: job.delay_s}
    headers = {**terms, **digested_names.headers_of(job.topic, job.id)}
    return Draft(
        topic=topic_of(job.topic),
        envelope=Envelope(content_type=_CONTENT_TYPE, headers=headers, body=body),
        id=id_of(job.id),
        delay_ms=job.delay_s * 1_000,
        max_retry=FOR_EVER,
        of_wire=True,
    )


def job_of(message: Message) -> Job:
    """Returns a message as a job. If the message was not sent by a wire of this package, `ttr_s` is 0, and `delay_s` is
    the time from the message's creation to its due moment."""
    record, envelope = message.record, message.envelope or Envelope()
    topic, job_id = digested_names.shown(record, envelope)
    return Job(
        topic=topic,
        id=job_id,
        delay_s=_seconds(envelope, _DELAY, max(0, record.due_ms - record.created_ms) // 1_000),
        ttr_s=_seconds(envelope, _TTR, 0),
        body=(envelope.body or b"").decode(errors="replace"),
    )


def is_job(message: Message) -> bool:
    """Returns whether one of the wires in this package sent the message."""
    return message.envelope is not None and _TTR in message.envelope.headers


def lease_ms(envelope: Envelope) -> int | None:
    """Returns the job's TTR in milliseconds; None: the job has none, so the topic's lease time applies."""
    return _seconds(envelope, _TTR, 0) * 1_000 or None


def _seconds(envelope: Envelope, name: str, default: int) -> int:
    value = envelope.headers.get(name)
    return value if isinstance(value, int) and 0 <= value <= LONGEST_S else default
