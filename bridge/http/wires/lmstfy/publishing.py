"""Publishes one job, a batch of jobs, or a job in place of another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from starlette.responses import Response

from bridge.http import off_loop, trace_context
from bridge.http.errors import TooManyValues
from bridge.http.json_elements import TooManyElements
from bridge.http.wires.lmstfy.acking import end_job
from bridge.http.wires.lmstfy.admission import Admitted
from bridge.http.wires.lmstfy.answers import Refusal, answer
from bridge.http.wires.lmstfy.jobs import headers_of
from bridge.http.wires.lmstfy.names import is_shortened
from bridge.http.wires.lmstfy.raw_json import NotAnArray, elements
from bridge.http.wires.lmstfy.request import WireRequest
from bridge.model.errors import BridgeError
from bridge.model.message import JSON_TYPE, Envelope
from bridge.model.values import MAX_DELAY_MS, Draft

MAX_JOBS: Final = 64
_BYTES_TYPE: Final = "application/octet-stream"


@dataclass(frozen=True, slots=True)
class _Terms:
    """The terms of the jobs in one request. `ttl_s` counts from the publish; 0: the jobs never expire."""

    delay_s: int
    ttl_s: int
    tries: int


async def publish(request: WireRequest, admitted: Admitted) -> Response:
    (job_id,) = await _send(request, admitted, *await _read_job(request))
    return answer(201, job_id=job_id, msg="published")


async def republish(request: WireRequest, admitted: Admitted) -> Response:
    """Publishes the request's job, and then ends the job that the path names.

    lmstfy deletes the old job first, even if it then refuses the request, and a crash in between loses the job.
    """
    (job_id,) = await _send(request, admitted, *await _read_job(request))
    await end_job(request, admitted)
    return answer(201, job_id=job_id, msg="published")


async def publish_bulk(request: WireRequest, admitted: Admitted) -> Response:
    terms = _terms(request)
    largest = request.wire.settings.max_body
    body = await request.body(request.wire.settings.max_batch, "job too large")
    try:
        jobs = await off_loop.parsed(partial(elements, most=MAX_JOBS), body)
    except TooManyElements:
        raise Refusal(400, error="too many jobs") from None
    except TooManyValues:
        raise Refusal(413, error="job too large") from None
    except NotAnArray:
        raise Refusal(400, error="request body should be an array of objects") from None
    if not jobs:
        raise Refusal(400, error="no jobs")
    if any(len(job) > largest for job in jobs):
        raise Refusal(413, error="job too large")
    headers = _attributes(request)
    envelopes = [Envelope(content_type=JSON_TYPE, headers=headers, body=job) for job in jobs]
    return answer(201, job_ids=await _send(request, admitted, terms, envelopes), msg="published")


async def _read_job(request: WireRequest) -> tuple[_Terms, Sequence[Envelope]]:
    terms = _terms(request)
    body = await request.body(request.wire.settings.max_body, "body too large")
    return terms, [Envelope(content_type=_BYTES_TYPE, headers=_attributes(request), body=body)]


def _terms(request: WireRequest) -> _Terms:
    query, settings = request.query, request.wire.settings
    delay_s = query.uint("delay", settings.lmstfy_delay_seconds)
    if delay_s * 1_000 > MAX_DELAY_MS:
        raise Refusal(400, error="invalid delay")
    ttl_s = query.uint("ttl", settings.lmstfy_ttl_seconds)
    if 0 < ttl_s < delay_s:
        raise Refusal(400, error="ttl is shorter than delay")
    tries = query.uint("tries", settings.lmstfy_tries, bits=16)
    if tries == 0:
        raise Refusal(400, error="tries shouldn't be zero")
    return _Terms(delay_s, ttl_s, tries)


def _is_versioned(request: WireRequest) -> bool:
    return request.header("Enable-Job-Version").upper() == "YES"


def _attributes(request: WireRequest) -> dict[str, str]:
    return headers_of(request.http.headers.raw) if _is_versioned(request) else {}


async def _send(request: WireRequest, admitted: Admitted, terms: _Terms, envelopes: Sequence[Envelope]) -> list[str]:
    """Publishes jobs, and returns their ids in the order of the envelopes.

    Raises:
        BridgeError: the error of the first job that failed. Earlier jobs are published, and later ones may be.
    """
    wire, topic, sending = request.wire, admitted.topic, admitted.service.sending
    if is_shortened(admitted.namespace, admitted.queue):
        await wire.keep_name(admitted.service.context.pool, topic, admitted.namespace, admitted.queue)
    drafts = [
        Draft(
            topic=topic,
            envelope=envelope,
            id=wire.job_ids.new(terms.delay_s, versioned=_is_versioned(request)),
            delay_ms=terms.delay_s * 1_000,
            ttl_ms=(terms.ttl_s - terms.delay_s) * 1_000 if terms.ttl_s else None,
            max_retry=terms.tries - 1,
            of_wire=True,
        )
        for envelope in envelopes
    ]
    context = trace_context.given(request.http.scope["headers"])
    drafts = [trace_context.carried(draft, context) for draft in drafts]
    # `send` shares its round trips with other requests; `send_many` uses its own.
    results = [await sending.send(drafts[0])] if len(drafts) == 1 else await sending.send_many(drafts)
    job_ids: list[str] = []
    for result in results:
        if isinstance(result, BridgeError):
            raise result
        job_ids.append(result.message.record.id)
        wire.metrics.published(admitted.pool, admitted.namespace, admitted.queue, delayed=terms.delay_s > 0)
    return job_ids
