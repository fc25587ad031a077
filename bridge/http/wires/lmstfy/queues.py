"""Reads queues and their dead letters, and empties them."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from starlette.responses import Response

from bridge.http.wires.lmstfy.admission import Admitted
from bridge.http.wires.lmstfy.answers import Refusal, answer, document, nothing
from bridge.http.wires.lmstfy.jobs import exists, remaining_tries, shown
from bridge.http.wires.lmstfy.request import WireRequest
from bridge.model.errors import NotFound
from bridge.model.message import Message, Record, State, valid_id

_PAGE: Final = 8
_MAX_PAGES: Final = 125


async def peek(_request: WireRequest, admitted: Admitted) -> Response:
    """Shows the job that the next consume of the queue would get. 404: no job is ready."""
    head = await _head(admitted)
    if head is None:
        raise Refusal(404, error="the queue is empty")
    return _job(admitted, head, remain_tries=remaining_tries(head.record))


async def peek_job(request: WireRequest, admitted: Admitted) -> Response:
    """Shows a job that has not ended, or a dead letter. 404: there is no such job, or it has ended. As in lmstfy,
    `remain_tries` is always 0 here."""
    job_id = request.params["job_id"]
    message = None
    with suppress(NotFound):
        if valid_id(job_id):
            message = await admitted.service.lookup.get(admitted.topic, job_id)
    if message is None or not exists(message.record, admitted.now_ms()):
        raise Refusal(404, error="job not found")
    return _job(admitted, message, remain_tries=0)


async def size(_request: WireRequest, admitted: Admitted) -> Response:
    """Answers with the number of ready jobs in the queue."""
    try:
        ready = (await admitted.service.topics.info(admitted.topic)).counts["ready"]
    except NotFound:
        ready = 0
    return answer(200, namespace=admitted.namespace, queue=admitted.queue, size=ready)


async def destroy(request: WireRequest, admitted: Admitted) -> Response:
    """Deletes the queue's ready jobs; delayed and leased jobs stay."""
    request.changed = await admitted.service.topics.empty_ready(admitted.topic)
    return nothing()


async def dead_letter_size(_request: WireRequest, admitted: Admitted) -> Response:
    return answer(200, namespace=admitted.namespace, queue=admitted.queue, size=await _dead_letters(admitted))


async def peek_dead_letter(_request: WireRequest, admitted: Admitted) -> Response:
    count = await _dead_letters(admitted)
    head = await admitted.service.dead.head(admitted.topic) if count else None
    return answer(
        200,
        namespace=admitted.namespace,
        queue=admitted.queue,
        deadletter_size=count,
        deadletter_head=head or "",
    )


async def respawn_dead_letters(request: WireRequest, admitted: Admitted) -> Response:
    """Makes up to `limit` dead letters ready, the oldest first. Each is delivered once more at most."""
    limit = request.query.signed("limit", 1, least=1)
    ttl_s = request.query.signed("ttl", request.wire.settings.lmstfy_ttl_seconds, least=0)
    count = 0
    if await _dead_letters(admitted):
        ttl_ms = min(ttl_s, 2**32) * 1_000 or None
        count = await admitted.service.dead.replay_many(admitted.topic, limit, max_retry=0, ttl_ms=ttl_ms)
    request.changed = count
    request.wire.metrics.respawned(admitted.pool, count)
    return answer(200, count=count, msg="respawned")


async def delete_dead_letters(request: WireRequest, admitted: Admitted) -> Response:
    limit, request.changed = request.query.signed("limit", 1, least=1), 0
    if await _dead_letters(admitted):
        request.changed = await admitted.service.dead.drop_many(admitted.topic, limit)
    return nothing()


async def _dead_letters(admitted: Admitted) -> int:
    """Returns the number of the queue's dead letters; 0, without asking RabbitMQ, if nobody has published to the queue.

    RabbitMQ logs a question about a missing queue as an error, and with BRIDGE_ACCESS=open anybody may ask.
    """
    try:
        await admitted.service.topics.info(admitted.topic)
    except NotFound:
        return 0
    return await admitted.service.dead.size(admitted.topic)


async def _head(admitted: Admitted) -> Message | None:
    """Returns the job that has been ready for longest; None if no job is ready.

    The pages list ready jobs by due time. A job becomes ready at its due time, or later if its TTR has ended. So
    reading stops at the first job whose due time is later than the moment at which the best candidate became ready.
    """
    lookup = admitted.service.lookup
    head: Message | None = None
    head_since_ms = 0
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await lookup.page(
            admitted.topic, states=[State.READY], due_after_ms=None, due_before_ms=None, limit=_PAGE, cursor=cursor
        )
        for message in page.items:
            if head is not None and message.record.due_ms > head_since_ms:
                return head
            now_ms = admitted.now_ms()
            since_ms = _ready_since_ms(message.record, now_ms)
            if exists(message.record, now_ms) and (head is None or since_ms < head_since_ms):
                head, head_since_ms = message, since_ms
        cursor = page.next_cursor
        if cursor is None:
            break
    return head


def _ready_since_ms(record: Record, now_ms: float) -> int:
    # If the awaited copy has not arrived yet, another copy has made the job ready at its due time.
    return max(record.due_ms, record.arrives_ms) if record.arrives_ms <= now_ms else record.due_ms


def _job(admitted: Admitted, message: Message, *, remain_tries: int) -> Response:
    job = shown(message, admitted.namespace, admitted.queue, admitted.now_ms(), remain_tries=remain_tries)
    return document(200, job)
