"""Answers the six calls on messages: reads their parameters, calls the service, builds the answer."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from bridge.access.caller import Caller
from bridge.http.wires.camellia.monitor import Monitor
from bridge.http.wires.camellia.spring import Params
from bridge.http.wires.cancel_on_disconnect import unless_gone
from bridge.model.errors import Conflict, InvalidRequest, NotFound, Unavailable
from bridge.model.message import Envelope, Message, valid_id, valid_topic
from bridge.model.values import MAX_DELAY_MS, Draft, Leased

if TYPE_CHECKING:
    from bridge.service.pools import Pools

Answer = dict[str, Any]

_CONTENT_TYPE: Final = "text/plain; charset=utf-8"
_TTL_MS: Final = 3_600_000
_MAX_RETRY: Final = 10
_LEASE_MS: Final = 30_000
_POLL_MS: Final = 10_000
_LONGEST_POLL_MS: Final = 3_600_000
_LARGEST_BATCH: Final = 1_000
_PULLED_AT_ONCE: Final = 100
# Clients send Long.MAX_VALUE for "no end". A century is long enough, and Lua adds it to a time without rounding.
_LONGEST_TTL_MS: Final = 100 * 365 * 86_400_000
_NEVER_MS: Final = (1 << 63) - 1


class Calls:
    """Carries out the calls. A call that fails raises BadParameter or a BridgeError."""

    def __init__(self, service: Pools, monitor: Monitor) -> None:
        self._service = service
        self._monitor = monitor

    async def send(self, params: Params) -> Answer:
        topic, message_id, text = params.text("topic"), params.text_if_given("msgId"), params.text("msg")
        delay_ms, ttl_ms = params.number("delayMillis"), params.number("ttlMillis", default=-1)
        max_retry = params.number("maxRetry", default=-1, bits=32)
        if message_id is None:
            message_id = uuid4().hex
        _check(topic, message_id)
        draft = Draft(
            topic=topic,
            envelope=Envelope(content_type=_CONTENT_TYPE, body=self._body(text, params.caller)),
            id=message_id,
            delay_ms=max(0, delay_ms),
            ttl_ms=min(ttl_ms, _LONGEST_TTL_MS) if ttl_ms > 0 else _TTL_MS,
            max_retry=max_retry if max_retry >= 0 else _MAX_RETRY,
            of_wire=True,
        )
        sent = await self._service.serving(topic).sending.send(draft)
        self._monitor.count(topic, "sendMsg")
        return _success(delayMsg=_delay_msg(sent.message))

    async def pull(self, params: Params) -> Answer:
        return await self._pull(params, wait_ms=0)

    async def long_poll(self, params: Params) -> Answer:
        wait_ms = params.number("longPollingTimeoutMillis", default=-1)
        return await self._pull(params, wait_ms=min(wait_ms, _LONGEST_POLL_MS) if wait_ms > 0 else _POLL_MS)

    async def ack(self, params: Params) -> Answer:
        acked = params.boolean("ack", default=True)
        topic, message_id = _names(params)
        if acked:
            await self._service.serving(topic).settling.ack_ids(topic, [message_id])
        else:
            with suppress(NotFound, Conflict):
                await self._service.serving(topic).settling.nack(
                    topic, message_id, receipt=None, delay_ms=0, reason=None
                )
        self._monitor.count(topic, "ackMsg")
        return _success()

    async def delete(self, params: Params) -> Answer:
        release = params.boolean("release", default=False)
        topic, message_id = _names(params)
        # A repeated delete succeeds in the service, and is code 404 on this wire.
        message = await self._service.serving(topic).lookup.get(topic, message_id)
        if message.record.state.ended:
            raise NotFound(f"the message {message_id!r} has ended")
        await self._service.serving(topic).changing.delete(topic, message_id, release=release)
        self._monitor.count(topic, "deleteMsg")
        return _success()

    async def get(self, params: Params) -> Answer:
        topic, message_id = _names(params)
        message = await self._service.serving(topic).lookup.get(topic, message_id)
        self._monitor.count(topic, "getMsg")
        return _success(delayMsg=_delay_msg(message))

    def _body(self, text: str, caller: Caller) -> bytes:
        body, limit = text.encode(), caller.max_body(self._service.settings.max_body)
        if not 0 < len(body) <= limit:
            raise InvalidRequest.of("msg", len(body), limit, f"must have 1 to {limit} bytes")
        return body

    async def _pull(self, params: Params, *, wait_ms: int) -> Answer:
        topic, timeout_ms = params.text("topic"), params.number("ackTimeoutMillis", default=-1)
        batch = params.number("batch", default=-1, bits=32)
        _check(topic)
        lease_ms = min(timeout_ms, MAX_DELAY_MS) if timeout_ms > 0 else _LEASE_MS
        batch = min(batch, _LARGEST_BATCH) if batch > 0 else 1
        leasing = self._lease(topic, batch, wait_ms, lease_ms)
        leased = await unless_gone(params.request, leasing) or [] if wait_ms else await leasing
        records = [delivery.message.record for delivery in leased]
        self._monitor.count_pulled(
            topic, [max(0, record.lease_until_ms - lease_ms - record.due_ms) for record in records]
        )
        return {"code": 200, "msg": None, "delayMsgList": [_delay_msg(delivery.message) for delivery in leased]}

    async def _lease(self, topic: str, batch: int, wait_ms: int, lease_ms: int) -> list[Leased]:
        leased: list[Leased] = []
        while len(leased) < batch:
            limit = min(batch - len(leased), _PULLED_AT_ONCE)
            try:
                more = await self._service.serving(topic).pulling.pull(
                    [topic], limit=limit, wait_ms=0 if leased else wait_ms, lease_ms=lease_ms
                )
            except Unavailable:
                if not leased:
                    raise
                break  # the client gets the messages that are leased already
            leased += more
            if len(more) < limit:
                break
        return leased


def _names(params: Params) -> tuple[str, str]:
    topic, message_id = params.text("topic"), params.text("msgId")
    _check(topic, message_id)
    return topic, message_id


def _check(topic: str, message_id: str | None = None) -> None:
    if not valid_topic(topic):
        raise InvalidRequest.of("topic", topic[:200], 100, "must be [A-Za-z0-9_.-], with at most one / in it")
    if message_id is not None and not valid_id(message_id):
        raise InvalidRequest.of("msgId", message_id[:200], 200, "must be printable ASCII without /")


def _success(**members: Any) -> Answer:
    return {"code": 200, "msg": "success", **members}


def _delay_msg(message: Message) -> Answer:
    record, envelope = message.record, message.envelope
    body = envelope.body if envelope else None
    return {
        "topic": record.topic,
        "msgId": record.id,
        "msg": None if body is None else body.decode(errors="replace"),
        "produceTime": record.created_ms,
        "triggerTime": record.due_ms,
        "expireTime": record.expires_ms or _NEVER_MS,
        "maxRetry": record.max_retry,
        "retry": record.attempts,
        "status": int(record.state),
    }
