"""What is in a queue, and what happens to all of it."""

from __future__ import annotations

from contextlib import suppress
from typing import Final

from starlette.responses import Response

from bridge.http.wires.lmstfy.answers import Refusal, answer, document, nothing
from bridge.http.wires.lmstfy.jobs import is_there, remaining_tries, shown
from bridge.http.wires.lmstfy.names import topic_of
from bridge.http.wires.lmstfy.request import LmstfyRequest
from bridge.model.errors import NotFound
from bridge.model.message import Message, Record, State, valid_id

_PAGE: Final = 8
_MAX_PAGES: Final = 125


async def peek(exchange: LmstfyRequest) -> Response:
    """The next job to be consumed."""
    head = await _head(exchange)
    if head is None:
        raise Refusal(404, error="the queue is empty")
    return _job(exchange, head, remain_tries=remaining_tries(head.record))


async def peek_job(exchange: LmstfyRequest) -> Response:
    """A job wherever it is. As in the original `remain_tries` is 0 here."""
    job_id, service = exchange.params["job_id"], exchange.service
    message = None
    with suppress(NotFound):
        if valid_id(job_id):
            message = await service.lookup.get(topic_of(exchange.namespace, exchange.queue), job_id)
    if message is None or not is_there(message.record, service.context.store.clock.now_ms()):
        raise Refusal(404, error="job not found")
    return _job(exchange, message, remain_tries=0)


async def size(exchange: LmstfyRequest) -> Response:
    """How many jobs are ready."""
    try:
        ready = (await exchange.service.topics.info(topic_of(exchange.namespace, exchange.queue))).counts["ready"]
    except NotFound:
        ready = 0
    return answer(200, namespace=exchange.namespace, queue=exchange.queue, size=ready)


async def destroy(exchange: LmstfyRequest) -> Response:
    await exchange.service.topics.empty_ready(topic_of(exchange.namespace, exchange.queue))
    return nothing()


async def dead_letter_size(exchange: LmstfyRequest) -> Response:
    return answer(200, namespace=exchange.namespace, queue=exchange.queue, size=await _dead_letters(exchange))


async def peek_dead_letter(exchange: LmstfyRequest) -> Response:
    topic, dead = topic_of(exchange.namespace, exchange.queue), exchange.service.dead
    count = await _dead_letters(exchange)
    head = await dead.head(topic) if count else None
    return answer(
        200,
        namespace=exchange.namespace,
        queue=exchange.queue,
        deadletter_size=count,
        deadletter_head=head or "",
    )


async def respawn_dead_letter(exchange: LmstfyRequest) -> Response:
    """Each has one try more."""
    limit = exchange.query.signed("limit", 1, least=1)
    ttl_s = exchange.query.signed("ttl", exchange.wire.settings.lmstfy_ttl_seconds, least=0)
    topic, dead = topic_of(exchange.namespace, exchange.queue), exchange.service.dead
    count = 0
    if await _dead_letters(exchange):
        count = await dead.replay_many(topic, limit, max_retry=0, ttl_ms=min(ttl_s, 2**32) * 1_000 or None)
    exchange.wire.metrics.respawned(exchange.found.pool, count)
    return answer(200, count=count, msg="respawned")


async def delete_dead_letter(exchange: LmstfyRequest) -> Response:
    limit = exchange.query.signed("limit", 1, least=1)
    topic, dead = topic_of(exchange.namespace, exchange.queue), exchange.service.dead
    if await _dead_letters(exchange):
        await dead.drop_many(topic, limit)
    return nothing()


async def _dead_letters(exchange: LmstfyRequest) -> int:
    """How many there are. RabbitMQ is asked of no queue that was never published to: it logs each such question as an
    error, and anybody may put it."""
    topic = topic_of(exchange.namespace, exchange.queue)
    try:
        await exchange.service.topics.info(topic)
    except NotFound:
        return 0
    return await exchange.service.dead.size(topic)


async def _head(exchange: LmstfyRequest) -> Message | None:
    """Of the ready jobs the one that has been so for longest.

    They are listed by the moment that each was due; one whose TTR has ended became ready later than that, and none
    became ready before. So the list is read up to where nobody behind can be earlier.
    """
    looking, clock = exchange.service.lookup, exchange.service.context.store.clock
    topic = topic_of(exchange.namespace, exchange.queue)
    head: Message | None = None
    head_since_ms = 0
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await looking.page(
            topic, states=[State.READY], due_after_ms=None, due_before_ms=None, limit=_PAGE, cursor=cursor
        )
        for message in page.items:
            if head is not None and message.record.due_ms > head_since_ms:
                return head
            since_ms = _ready_since_ms(message.record, clock.now_ms())
            if is_there(message.record, clock.now_ms()) and (head is None or since_ms < head_since_ms):
                head, head_since_ms = message, since_ms
        cursor = page.next_cursor
        if cursor is None:
            break
    return head


def _ready_since_ms(record: Record, now_ms: float) -> int:
    # A copy that is yet to arrive is one that another took the place of.
    return max(record.due_ms, record.arrives_ms) if record.arrives_ms <= now_ms else record.due_ms


def _job(exchange: LmstfyRequest, message: Message, *, remain_tries: int) -> Response:
    now_ms = exchange.service.context.store.clock.now_ms()
    return document(200, shown(message, exchange.namespace, exchange.queue, now_ms, remain_tries=remain_tries))
