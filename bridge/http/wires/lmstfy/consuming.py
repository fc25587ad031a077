"""Consume: the next job, or several, of one queue or of several by their priority."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.responses import Response

from bridge.http.wires.cancel_on_disconnect import unless_gone
from bridge.http.wires.lmstfy.answers import Refusal, answer, document
from bridge.http.wires.lmstfy.jobs import Job, remaining_tries, shown
from bridge.http.wires.lmstfy.names import topic_of
from bridge.http.wires.lmstfy.request import LmstfyRequest
from bridge.model.values import MAX_DELAY_MS, Leased

_MAX_JOBS: Final = 100
_MAX_QUEUES: Final = 100
_LONGEST_WAIT_MS: Final = 3_600_000


async def consume(exchange: LmstfyRequest) -> Response:
    query, settings, namespace = exchange.query, exchange.wire.settings, exchange.namespace
    ttr_s = query.uint("ttr", settings.lmstfy_ttr_seconds)
    timeout_s = query.uint("timeout", settings.lmstfy_timeout_seconds)
    count = query.uint("count", 1)
    if not 0 < count <= _MAX_JOBS:
        raise Refusal(400, error="invalid count")
    frozen = query.boolean("freeze_tries")
    queues = {topic_of(namespace, queue): queue for queue in exchange.queue.split(",") if queue}
    if not 0 < len(queues) <= _MAX_QUEUES:
        raise Refusal(400, error="invalid queue name(s)")
    await exchange.drain()  # from here on only the client's leaving is waited for
    wait_ms = min(timeout_s * 1_000, _LONGEST_WAIT_MS)
    pulling = exchange.service.pulling.pull(
        list(queues),
        limit=count,
        wait_ms=wait_ms,
        lease_ms=min(ttr_s * 1_000, MAX_DELAY_MS) or 1,
        counted=not frozen,
    )
    leased = await (unless_gone(exchange.request, pulling) if wait_ms else pulling) or []
    if not leased:
        return answer(404, msg="no job available")
    now_ms = exchange.service.context.store.clock.now_ms()
    jobs: list[Job] = []
    for one in _in_order(leased, list(queues)):
        record = one.message.record
        queue = queues[record.topic]
        tries = remaining_tries(record)
        job = shown(one.message, namespace, queue, now_ms, remain_tries=tries)
        jobs.append(dict(sorted({**job, "msg": "new job"}.items())))
        exchange.wire.metrics.consumed(exchange.found.pool, namespace, queue, job["elapsed_ms"])
    return document(200, jobs[0] if count == 1 else jobs)


def _in_order(leased: Sequence[Leased], topics: Sequence[str]) -> list[Leased]:
    """A batch is taken over several channels, so its order is nearly the queue's. That of first deliveries is known:
    by when they were due, then by their ids; the others keep their places."""
    first = [one for one in leased if _is_first(one)]
    ordered = iter(sorted(first, key=lambda one: (topics.index(one.message.record.topic), *_place(one))))
    return [next(ordered) if _is_first(one) else one for one in leased]


def _place(one: Leased) -> tuple[int, str]:
    return one.message.record.due_ms, one.message.record.id


def _is_first(one: Leased) -> bool:
    return one.message.record.attempts <= 1
