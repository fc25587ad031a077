"""Publish: one job, many at once, or one in another's place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from starlette.responses import Response

from bridge.http.wires.lmstfy.acking import end
from bridge.http.wires.lmstfy.answers import Refusal, answer
from bridge.http.wires.lmstfy.jobs import headers_of
from bridge.http.wires.lmstfy.names import is_cut, topic_of
from bridge.http.wires.lmstfy.raw_json import NotAnArray, elements
from bridge.http.wires.lmstfy.request import LmstfyRequest
from bridge.model.errors import BridgeError
from bridge.model.message import JSON_TYPE, Envelope
from bridge.model.values import MAX_DELAY_MS, Draft

MAX_JOBS: Final = 64
_BYTES_TYPE: Final = "application/octet-stream"
_BESIDE_JOBS_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Terms:
    """`ttl_s`: counted from the publish, 0 for ever."""

    delay_s: int
    ttl_s: int
    tries: int


async def publish(exchange: LmstfyRequest) -> Response:
    (job_id,) = await _send(exchange, *await _one(exchange))
    return answer(201, job_id=job_id, msg="published")


async def republish(exchange: LmstfyRequest) -> Response:
    """The new job first: the original deletes the old one first, even where the request is refused then, and a crash in
    between loses the job."""
    (job_id,) = await _send(exchange, *await _one(exchange))
    await end(exchange)
    return answer(201, job_id=job_id, msg="published")


async def publish_bulk(exchange: LmstfyRequest) -> Response:
    terms = _terms(exchange)
    largest = exchange.wire.settings.max_body
    body = await exchange.body(MAX_JOBS * largest + _BESIDE_JOBS_BYTES, "job too large")
    try:
        jobs = elements(body)
    except NotAnArray:
        raise Refusal(400, error="request body should be an array of objects") from None
    if not jobs:
        raise Refusal(400, error="no jobs")
    if len(jobs) > MAX_JOBS:
        raise Refusal(400, error="too many jobs")
    if any(len(job) > largest for job in jobs):
        raise Refusal(413, error="job too large")
    headers = _attributes(exchange)
    envelopes = [Envelope(content_type=JSON_TYPE, headers=headers, body=job) for job in jobs]
    return answer(201, job_ids=await _send(exchange, terms, envelopes), msg="published")


async def _one(exchange: LmstfyRequest) -> tuple[_Terms, Sequence[Envelope]]:
    terms = _terms(exchange)
    body = await exchange.body(exchange.wire.settings.max_body, "body too large")
    return terms, [Envelope(content_type=_BYTES_TYPE, headers=_attributes(exchange), body=body)]


def _terms(exchange: LmstfyRequest) -> _Terms:
    query, settings = exchange.query, exchange.wire.settings
    delay_s = query.uint("delay", settings.lmstfy_delay_seconds)
    if delay_s * 1_000 > MAX_DELAY_MS:
        raise Refusal(400, error="invalid delay")  # longer than the wheel is
    ttl_s = query.uint("ttl", settings.lmstfy_ttl_seconds)
    if 0 < ttl_s < delay_s:
        raise Refusal(400, error="ttl is shorter than delay")
    tries = query.uint("tries", settings.lmstfy_tries, bits=16)
    if tries == 0:
        raise Refusal(400, error="tries shouldn't be zero")
    return _Terms(delay_s, ttl_s, tries)


def _is_versioned(exchange: LmstfyRequest) -> bool:
    return exchange.header("Enable-Job-Version").upper() == "YES"


def _attributes(exchange: LmstfyRequest) -> dict[str, str]:
    return headers_of(exchange.request.headers.raw) if _is_versioned(exchange) else {}


async def _send(exchange: LmstfyRequest, terms: _Terms, envelopes: Sequence[Envelope]) -> list[str]:
    namespace, queue, wire = exchange.namespace, exchange.queue, exchange.wire
    topic = topic_of(namespace, queue)
    if is_cut(namespace, queue):
        await wire.keep_name(exchange.service.context.pool, topic, namespace, queue)
    drafts = [
        Draft(
            topic=topic,
            envelope=envelope,
            id=wire.job_ids.new(terms.delay_s, versioned=_is_versioned(exchange)),
            delay_ms=terms.delay_s * 1_000,
            ttl_ms=(terms.ttl_s - terms.delay_s) * 1_000 if terms.ttl_s else None,
            max_retry=terms.tries - 1,
        )
        for envelope in envelopes
    ]
    sending = exchange.service.sending
    # One by itself shares its round trips with those of others.
    sent = [await sending.send(drafts[0])] if len(drafts) == 1 else await sending.send_many(drafts)
    ids: list[str] = []
    for one in sent:
        if isinstance(one, BridgeError):
            raise one
        ids.append(one.message.record.id)
        wire.metrics.published(exchange.found.pool, namespace, queue, delayed=terms.delay_s > 0)
    return ids
