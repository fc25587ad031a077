"""Answers the six calls of camellia's clients on messages: reads their parameters, calls the service, builds the
answer."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from bridge.access.caller import Caller
from bridge.http import trace_context
from bridge.http.cancel_on_disconnect import unless_gone
from bridge.http.wires import digested_names
from bridge.http.wires.camellia.monitor import Monitor
from bridge.http.wires.camellia.spring import Params
from bridge.model.errors import Conflict, InvalidRequest, NotFound, Unavailable
from bridge.model.message import Envelope, Message, State, id_of
from bridge.model.values import MAX_DELAY_MS, Draft, Leased
from bridge.service.horizon import check_horizon

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools

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


@dataclass(frozen=True, slots=True)
class _Names:
    """A message's topic and id: as a client gave them, and as the bridge names them."""

    given_topic: str
    given_id: str

    @property
    def topic(self) -> str:
        return digested_names.topic_of(self.given_topic)

    @property
    def id(self) -> str:
        return id_of(self.given_id)

    def shown(self, message: Message) -> Answer:
        """Returns the message as its client sees it, with the topic and the id that the client gave in this call. Only
        the envelope keeps these names, and a message whose body was released has no envelope."""
        return {**_delay_msg(message), "topic": self.given_topic, "msgId": self.given_id}


class Calls:
    """Carries out the calls of camellia's wire. A call that fails raises BadParameter or a BridgeError."""

    def __init__(self, service: Pools, monitor: Monitor) -> None:
        self._service = service
        self._monitor = monitor

    async def send(self, params: Params) -> Answer:
        topic, message_id, text = params.text("topic"), params.text_if_given("msgId"), params.text("msg")
        delay_ms, ttl_ms = params.number("delayMillis"), params.number("ttlMillis", default=-1)
        max_retry = params.number("maxRetry", default=-1, bits=32)
        names = _checked(topic, uuid4().hex if message_id is None else message_id)
        headers = digested_names.headers_of(names.given_topic, names.given_id)
        body = self._body(text, params.caller)
        check_horizon("delayMillis", delay_ms, delay_ms)
        draft = Draft(
            topic=names.topic,
            envelope=Envelope(content_type=_CONTENT_TYPE, headers=headers, body=body),
            id=names.id,
            delay_ms=max(0, delay_ms),
            ttl_ms=min(ttl_ms, _LONGEST_TTL_MS) if ttl_ms > 0 else _TTL_MS,
            max_retry=max_retry if max_retry >= 0 else _MAX_RETRY,
            of_wire=True,
        )
        draft = trace_context.carried(draft, trace_context.given(params.request.scope["headers"]))
        sent = await self._service.serving(names.topic).sending.send(draft, params.caller.maker)
        with suppress(Unavailable):  # the message is accepted, and a later send writes the name
            await self._service.default.given_names.keep(names.topic, names.given_topic)
        self._monitor.count(names.topic, "sendMsg")
        return _success(delayMsg=names.shown(sent.message))

    async def pull(self, params: Params) -> Answer:
        return await self._pull(params, wait_ms=0)

    async def long_poll(self, params: Params) -> Answer:
        wait_ms = params.number("longPollingTimeoutMillis", default=-1)
        return await self._pull(params, wait_ms=min(wait_ms, _LONGEST_POLL_MS) if wait_ms > 0 else _POLL_MS)

    async def ack(self, params: Params) -> Answer:
        acked = params.boolean("ack", default=True)
        topic, message_id = _bridge_names(params)
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
        topic, message_id = _bridge_names(params)
        # A repeated delete succeeds in the service, and is code 404 on this wire.
        message = await self._service.serving(topic).lookup.get(topic, message_id)
        if message.record.state.ended:
            raise NotFound(f"the message {message_id!r} has ended")
        await self._service.serving(topic).changing.delete(topic, message_id, release=release, waits=True)
        self._monitor.count(topic, "deleteMsg")
        return _success()

    async def get(self, params: Params) -> Answer:
        names = _checked(params.text("topic"), params.text("msgId"))
        message = await self._service.serving(names.topic).lookup.get(names.topic, names.id)
        if message.record.state is State.DELETED and message.envelope is None:
            raise NotFound(f"the message {message.record.id!r} was deleted and released")
        self._monitor.count(names.topic, "getMsg")
        return _success(delayMsg=names.shown(message))

    def _body(self, text: str, caller: Caller) -> bytes:
        body, limit = text.encode(), caller.max_body(self._service.settings.max_body)
        if not 0 < len(body) <= limit:
            raise InvalidRequest.of("msg", len(body), limit, f"must have 1 to {limit} bytes")
        return body

    async def _pull(self, params: Params, *, wait_ms: int) -> Answer:
        given_topic, timeout_ms = params.text("topic"), params.number("ackTimeoutMillis", default=-1)
        batch = params.number("batch", default=-1, bits=32)
        _check("topic", given_topic)
        topic = digested_names.topic_of(given_topic)
        lease_ms = min(timeout_ms, MAX_DELAY_MS) if timeout_ms > 0 else _LEASE_MS
        batch = min(batch, _LARGEST_BATCH) if batch > 0 else 1
        leasing = self._lease(topic, batch, wait_ms, lease_ms)
        leased = await unless_gone(params.request.receive, leasing) or [] if wait_ms else await leasing
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


def _bridge_names(params: Params) -> tuple[str, str]:
    names = _checked(params.text("topic"), params.text("msgId"))
    return names.topic, names.id


def _checked(topic: str, message_id: str) -> _Names:
    _check("topic", topic)
    _check("msgId", message_id)
    return _Names(topic, message_id)


def _check(field: str, name: str) -> None:
    if not name:
        raise InvalidRequest.of(field, name, digested_names.LONGEST, "must not be empty")
    digested_names.check(field, name)


def _success(**members: Any) -> Answer:
    return {"code": 200, "msg": "success", **members}


def _delay_msg(message: Message) -> Answer:
    record, envelope = message.record, message.envelope
    body = envelope.body if envelope else None
    topic, message_id = digested_names.shown(record, envelope)
    return {
        "topic": topic,
        "msgId": message_id,
        "msg": None if body is None else body.decode(errors="replace"),
        "produceTime": record.created_ms,
        "triggerTime": record.due_ms,
        "expireTime": record.expires_ms or _NEVER_MS,
        "maxRetry": record.max_retry,
        "retry": record.attempts,
        "status": int(record.state),
    }
