"""Answers the calls `add` and `pull` of a delay-task service's clients."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, Raw, Struct
from starlette.background import BackgroundTask
from starlette.requests import Request

from bridge.access.caller import Caller
from bridge.http import exact_json, trace_context
from bridge.http.v1.contract.content import shown_body
from bridge.http.v1.contract.scalars import TOPIC_FORM, whole
from bridge.loops.callbacks.destinations import (
    SERVICE_HEADER,
    URL_HEADER,
    Destinations,
    NoDestination,
)
from bridge.model.addresses import refusal_at_sight
from bridge.model.durations import LATEST_INSTANT_MS
from bridge.model.errors import InvalidRequest, NotFound, Unavailable
from bridge.model.message import JSON_TYPE, TOPIC_PATTERN, Envelope, Message, State, valid_topic
from bridge.model.values import Draft
from bridge.service.topics.subscriptions import Subscription

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools

Params = dict[str, Any]
Answer = dict[str, Any]

CALLED_BACK: Final = ".callbacks"  # suffix of the topic that holds the tasks with a receiver
_TEXT_TYPE: Final = "text/plain; charset=utf-8"
_JSON_TEXT_TYPE: Final = (
    "application/json; charset=utf-8"  # JSON that the client gave as a string, and gets back as one
)
_LATEST_S: Final = LATEST_INSTANT_MS // 1_000
_DIGITS: Final = re.compile(r"[0-9]{1,18}")


class _Receiver(Struct, frozen=True, gc=False):
    url: Any = None
    sn: Any = None


_RECEIVER: Final = msgspec.json.Decoder(_Receiver)


class NotDue(NotFound):
    """The task exists and is not due yet."""


class Calls:
    """Carries out the calls of the task wire. A call that fails raises a BridgeError."""

    def __init__(self, service: Pools) -> None:
        self._service = service
        self._destinations = Destinations(service.settings.task_services or {})

    async def add(self, params: Params, request: Request, caller: Caller) -> tuple[Answer, None]:
        topic, moment_s = _topic(params), _number(params, "timing_moment", most=_LATEST_S)
        envelope = self._envelope(params.get("content"), caller)
        if called_back := URL_HEADER in envelope.headers:
            topic = _callback_topic(topic)
        service = self._service.serving(topic)
        draft = Draft(topic=topic, envelope=envelope, deliver_at_ms=moment_s * 1_000, of_wire=True)
        draft = trace_context.carried(draft, trace_context.given(request.scope["headers"]))
        await service.sending.check(draft)
        await service.topics.admit(topic, caller.maker)
        if called_back:
            await service.subscriptions.add(Subscription(topic=topic, url=None))
        task_id = await self._service.default.task_ids.next()
        await service.sending.send(replace(draft, id=str(task_id)))
        return {"task_id": task_id}, None

    async def pull(self, params: Params, _: Request, caller: Caller) -> tuple[Answer, BackgroundTask | None]:
        """Returns the task that `task_id` names, or without `task_id` the next ready task of the topic. Also returns
        the acknowledgement, which runs after the answer is sent; None: there is nothing to acknowledge.

        If no task is ready, the answer's members are null. If the answer can't be sent, the lease expires and the task
        is redelivered.

        Raises:
            InvalidRequest: a parameter is missing or malformed.
            NotDue: the task that `task_id` names is not due yet.
            NotFound: there is no task that `task_id` names, or its content was not kept.
        """
        topic = _topic(params)
        if params.get("task_id") not in (None, ""):
            return _shown(await self._by_id(topic, str(_number(params, "task_id", most=2**63 - 1)))), None
        pulled = await self._service.serving(topic).pulling.pull([topic], limit=1, wait_ms=0, lease_ms=None)
        if not pulled:
            return {"task_id": None, "content": None}, None
        (leased,) = pulled
        return _shown(leased.message), BackgroundTask(self._consume, topic, leased.receipt)

    async def _by_id(self, topic: str, task_id: str) -> Message:
        """Returns a due task, also if it was consumed before. Consumes the task if it is waiting or ready, and has no
        receiver.

        Raises:
            NotDue: the task exists and is not due yet.
            NotFound: there is no such task, or its content was not kept.
        """
        message = await self._find(topic, task_id)
        record = message.record
        if record.state is State.WAITING and record.due_ms > self._service.serving(topic).context.store.clock.now_ms():
            raise NotDue(f"the task {task_id} is not due yet")
        if record.topic == topic and record.state in (State.WAITING, State.READY):
            await self._service.serving(topic).settling_tasks.ack_ids(topic, [task_id])
        return message

    async def _find(self, topic: str, task_id: str) -> Message:
        for one in (topic, topic + CALLED_BACK):
            (message,) = await self._service.serving(one).lookup.get_many(one, [task_id])
            if message is not None and message.record.state not in (State.DELETED, State.EXPIRED):
                if message.envelope is None or message.envelope.body is None:
                    break
                return message
        raise NotFound(f"there is no task {task_id}, or its content was not kept")

    async def _consume(self, topic: str, receipt: str) -> None:
        with suppress(Unavailable):  # the task is redelivered when its lease expires
            await self._service.serving(topic).settling_tasks.ack_receipts(topic, [receipt])

    def _envelope(self, content: str | Raw | None, caller: Caller) -> Envelope:
        """Returns the envelope of a task. `content`: a text, or any other JSON value.

        Raises:
            InvalidRequest: the content is missing or too large, or callbacks may not go to its receiver.
        """
        if content in (None, ""):
            raise InvalidRequest.of("content", content, None, "is required")
        body = content.encode() if isinstance(content, str) else exact_json.compact(content)
        settings = self._service.settings
        # `pull` by id reads the content from Redis, which keeps no larger body.
        limit = caller.max_body(min(settings.max_body, settings.largest_kept_of_wires or settings.max_body))
        if len(body) > limit:
            raise InvalidRequest.of("content", len(body), limit, f"must have at most {limit} bytes")
        callback = _callback_of(content)
        content_type = JSON_TYPE
        if isinstance(content, str):
            content_type = _JSON_TEXT_TYPE if callback else _TEXT_TYPE
        return Envelope(content_type=content_type, headers=self._receiver(callback), body=body)

    def _receiver(self, callback: Params) -> dict[str, str]:
        """Returns the task's receiver as headers of the message, which callbacks read.

        Raises:
            InvalidRequest: callbacks may not go to this receiver.
        """
        if not callback:
            return {}
        url, service = callback["url"], callback.get("sn")
        try:
            refusal = refusal_at_sight(
                self._destinations.named(url, service).url, self._service.settings.push_allow or ()
            )
        except NoDestination as error:
            refusal = str(error)
        if refusal is not None:
            raise InvalidRequest.of("content", url, None, refusal)
        return {URL_HEADER: url} if service is None else {URL_HEADER: url, SERVICE_HEADER: service}


def _callback_of(content: str | Raw) -> Params:
    """Returns the receiver that a task's content names: `url`, and `sn` (a service's name) if it is given. The content
    is a JSON object, or a text that holds one. Otherwise, or without a URL, returns {}."""
    try:
        found = _RECEIVER.decode(content)
    except (msgspec.DecodeError, RecursionError):
        return {}
    if not found.url:
        return {}
    return {"url": found.url} if found.sn is None else {"url": found.url, "sn": found.sn}


def _callback_topic(topic: str) -> str:
    if not valid_topic(topic + CALLED_BACK):
        raise InvalidRequest.of("topic", topic[:200], 100 - len(CALLED_BACK), "is too long for tasks with a url")
    return topic + CALLED_BACK


def _shown(message: Message) -> Answer:
    record, envelope = message.record, message.envelope
    assert envelope is not None
    content: Any = next((shown for shown in shown_body(envelope) if shown is not UNSET), None)
    if envelope.content_type == _JSON_TEXT_TYPE and envelope.body is not None:
        content = envelope.body.decode()
    return {"task_id": int(record.id) if _DIGITS.fullmatch(record.id) else record.id, "content": content}


def _topic(params: Params) -> str:
    topic = params.get("topic")
    if not isinstance(topic, str) or not valid_topic(topic):
        raise InvalidRequest.of("topic", topic, TOPIC_PATTERN, "is required" if topic is None else TOPIC_FORM)
    return topic


def _number(params: Params, name: str, *, most: int) -> int:
    value = params.get(name)
    value = int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else whole(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise InvalidRequest.of(name, value, most, f"must be a whole number from 0 to {most}")
    return int(value)
