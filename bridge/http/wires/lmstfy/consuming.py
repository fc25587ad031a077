"""Consumes the next jobs of one queue or several queues. Queues that the request names earlier come first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.responses import Response

from bridge.http.cancel_on_disconnect import unless_gone
from bridge.http.wires.lmstfy.admission import Admitted
from bridge.http.wires.lmstfy.answers import Refusal, answer, document
from bridge.http.wires.lmstfy.jobs import Job, remaining_tries, shown
from bridge.http.wires.lmstfy.names import topic_of
from bridge.http.wires.lmstfy.request import WireRequest
from bridge.model.values import MAX_DELAY_MS, Leased

_MAX_JOBS: Final = 100
_MAX_QUEUES: Final = 100
_LONGEST_WAIT_MS: Final = 3_600_000


async def consume(request: WireRequest, admitted: Admitted) -> Response:
    query, settings, namespace = request.query, request.wire.settings, admitted.namespace
    ttr_s = query.uint("ttr", settings.lmstfy_ttr_seconds)
    timeout_s = query.uint("timeout", settings.lmstfy_timeout_seconds)
    count = query.uint("count", 1)
    if not 0 < count <= _MAX_JOBS:
        raise Refusal(400, error="invalid count")
    freezes_tries = query.boolean("freeze_tries")
    queues = {topic_of(namespace, queue): queue for queue in admitted.queue.split(",") if queue}
    if not 0 < len(queues) <= _MAX_QUEUES:
        raise Refusal(400, error="invalid queue name(s)")
    await request.drain()  # so that the next ASGI event is the disconnect
    wait_ms = min(timeout_s * 1_000, _LONGEST_WAIT_MS)
    pulling = admitted.service.pulling.pull(
        list(queues),
        limit=count,
        wait_ms=wait_ms,
        lease_ms=min(ttr_s * 1_000, MAX_DELAY_MS) or 1,
        counted=not freezes_tries,
    )
    deliveries = await (unless_gone(request.http.receive, pulling) if wait_ms else pulling) or []
    if not deliveries:
        return answer(404, msg="no job available")
    now_ms = admitted.now_ms()
    jobs: list[Job] = []
    for delivery in _in_order(deliveries, list(queues)):
        record = delivery.message.record
        queue = queues[record.topic]
        job = shown(delivery.message, namespace, queue, now_ms, remain_tries=remaining_tries(record))
        jobs.append(dict(sorted({**job, "msg": "new job"}.items())))
        request.wire.metrics.consumed(admitted.pool, namespace, queue, job["elapsed_ms"])
    return document(200, jobs[0] if count == 1 else jobs)


def _in_order(deliveries: Sequence[Leased], topics: Sequence[str]) -> list[Leased]:
    """Sorts jobs that are delivered for the first time by topic, due time and id. Redeliveries keep their positions.

    The bridge takes a batch over several channels, so the order of a batch may differ slightly from the queue's.
    """
    first = [delivery for delivery in deliveries if _is_first(delivery)]
    ordered = iter(sorted(first, key=lambda delivery: _sort_key(delivery, topics)))
    return [next(ordered) if _is_first(delivery) else delivery for delivery in deliveries]


def _sort_key(delivery: Leased, topics: Sequence[str]) -> tuple[int, int, str]:
    record = delivery.message.record
    return topics.index(record.topic), record.due_ms, record.id


def _is_first(delivery: Leased) -> bool:
    return delivery.message.record.attempts <= 1
