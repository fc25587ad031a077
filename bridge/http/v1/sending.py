"""Sending: one message, or up to a thousand, each by itself."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from starlette.responses import Response

from bridge.access.decision import Need
from bridge.access.token import Scope
from bridge.http import exact_json, problems
from bridge.http.errors import TooLarge
from bridge.http.fields import parse, renamed
from bridge.http.v1 import examples
from bridge.http.v1.call import Call, JsonAnswer
from bridge.http.v1.content import envelope_of
from bridge.http.v1.operation import TOPIC, Answer, Operation
from bridge.http.v1.plain import plain_draft
from bridge.http.v1.requests import BatchRequest, SendRequest
from bridge.http.v1.results import BatchOut, MessageOut, message_json
from bridge.model.errors import BridgeError, InvalidRequest
from bridge.model.values import Draft, Sent

if TYPE_CHECKING:
    from bridge.service.pools import Pools


async def send(pools: Pools, call: Call) -> Response:
    """201: the message is durable. 200 with `Idempotent-Replay: true`: the id is live already, and this is the message
    that has it. 503: nothing was promised, send again with the same id. The `body` reaches consumers as compact JSON in
    UTF-8 (its numbers digit for digit), or as UTF-8 where the content type is text; `body_base64` as its bytes."""
    max_body_bytes = call.caller.max_body(pools.settings.max_body)
    topic = call.topic
    draft, plain = _draft(topic, await call.value(), max_body_bytes)
    sent = await pools.serving(topic).sending.send(draft)
    if sent.replayed:
        return JsonAnswer(message_json(sent.message), headers=_REPLAYED)
    return JsonAnswer(message_json(sent.message, plain=plain), 201, [(b"location", _location(sent))])


async def send_many(pools: Pools, call: Call) -> Response:
    """One result for each message, in order: 201 or 200 with the message as for one, or the status and the error it
    would have been refused with. One bad message harms no other."""
    topic, max_body_bytes = call.topic, call.caller.max_body(pools.settings.max_body)
    given = (await call.body(BatchRequest)).messages
    results = [b""] * len(given)
    drafts: dict[int, tuple[Draft, bool]] = {}
    for place, item in enumerate(given):
        try:
            drafts[place] = _draft(topic, item, max_body_bytes)
        except BridgeError as error:
            results[place] = exact_json.dumps(_failure(error, place, call.request_id))
    sending = pools.serving(topic).sending
    outcomes = await sending.send_many([draft for draft, _ in drafts.values()]) if drafts else []
    for (place, (_, plain)), outcome in zip(drafts.items(), outcomes, strict=True):
        if isinstance(outcome, Sent) and outcome.replayed:
            results[place] = b'{"status":200,"message":%b}' % message_json(outcome.message)
        elif isinstance(outcome, Sent):
            results[place] = b'{"status":201,"message":%b}' % message_json(outcome.message, plain=plain)
        else:
            results[place] = exact_json.dumps(_failure(outcome, place, call.request_id))
    return JsonAnswer(b'{"results":[%b]}' % b",".join(results))


def _draft(topic: str, message: Any, max_body_bytes: int) -> tuple[Draft, bool]:
    """The message as a draft, and whether it is a plain one."""
    plain = plain_draft(topic, message, max_body_bytes)
    if plain is not None:
        return plain, True
    request = parse(SendRequest, message)
    draft = Draft(
        topic=topic,
        envelope=envelope_of(request, max_body_bytes),
        id=request.id,
        delay_ms=request.delay,
        deliver_at_ms=request.deliver_at,
        ttl_ms=request.ttl,
        max_retry=request.max_retry,
    )
    return draft, False


def _failure(error: BridgeError, place: int, identity: str) -> dict[str, Any]:
    """The result of a message that was refused; its fields are named from the top of the request."""
    if isinstance(error, InvalidRequest):
        error = InvalidRequest(*(renamed(one, f"messages.{place}.") for one in error.errors))
    elif isinstance(error, TooLarge):
        error = error.under(f"messages.{place}.")
    problem = problems.problem(error, identity)
    return {"status": problem["status"], "error": problem}


def _location(sent: Sent) -> bytes:
    topic, message_id = sent.message.record.topic, sent.message.record.id
    return b"%b%b" % (
        _messages_of(topic),
        (message_id if message_id.isalnum() else quote(message_id, safe="")).encode(),
    )


@lru_cache(maxsize=1_024)
def _messages_of(topic: str) -> bytes:
    return f"/v1/topics/{quote(topic, safe='')}/messages/".encode()


_REPLAY = {"Idempotent-Replay": "true"}
_REPLAYED = [(b"idempotent-replay", b"true")]

OPERATIONS = (
    Operation(
        name="send",
        group="messages",
        method="POST",
        path=f"{TOPIC}/messages",
        run=send,
        need=Need(scope=Scope.SEND, rated=True),
        takes=SendRequest,
        examples=examples.SENDS,
        answers={
            201: Answer(
                says="Accepted", model=MessageOut, example=examples.MESSAGE, headers={"Location": "the message's path"}
            ),
            200: Answer(
                says="The id is live already: the message that has it",
                model=MessageOut,
                example=examples.MESSAGE,
                headers=_REPLAY,
            ),
        },
        problems=(400, 413, 422, 503),
    ),
    Operation(
        name="send_many",
        group="messages",
        method="POST",
        path=f"{TOPIC}/messages/batch",
        run=send_many,
        need=Need(scope=Scope.SEND, rated=True),
        takes=BatchRequest,
        examples={"two messages": {"messages": [examples.SEND, {"body": {"order": 1002}, "delay": "1000d"}]}},
        answers={
            200: Answer(
                says="A result for each, in order",
                model=BatchOut,
                example={
                    "results": [
                        {"status": 201, "message": examples.MESSAGE},
                        _failure(examples.TOO_LATE, 1, "5f0c9a7d1e3b48266a1d0f27"),
                    ]
                },
            )
        },
        problems=(400, 413, 422, 503),
    ),
)
