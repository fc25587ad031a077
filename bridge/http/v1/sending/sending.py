"""Sends one message, or up to 1000 in one request."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import TYPE_CHECKING
from urllib.parse import quote

from msgspec import to_builtins
from starlette.responses import Response

from bridge.access.caller import Caller
from bridge.access.decision import Need
from bridge.access.token import Scope
from bridge.http import problems, trace_context
from bridge.http.errors import BrokenJSON, TooLarge
from bridge.http.reading import read, renamed
from bridge.http.v1.contract.content import envelope_of
from bridge.http.v1.contract.requests import BatchRequest, SendRequest
from bridge.http.v1.contract.results import BatchItem, BatchOut, MessageOut, message_out
from bridge.http.v1.document import examples
from bridge.http.v1.operation.call import ApiCall, JsonAnswer
from bridge.http.v1.operation.operation import TOPIC, Operation, ResponseDoc
from bridge.http.v1.sending.batches import messages_of
from bridge.model.errors import BridgeError, InvalidRequest, Unavailable
from bridge.model.values import Draft, Sent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bridge.service.pools.pools import Pools
    from bridge.service.sending.repeats import Try
    from bridge.service.service import Service


BATCH = "/messages/batch"


async def send(pools: Pools, call: ApiCall) -> Response:
    """Accepts a message and delivers it when it is due.

    Give `delay`, or `deliver_at`, or neither for now. 201: the message is durable. 200 with `Idempotent-Replay: true`:
    a live message already has this id, and the answer is that message. 200 without this header: that message was
    replaced or extended, as `if_exists` asks. 422 for `body`, `content_type` or `to`: that message has another one, and
    `if_exists` is not given. 409: `if_exists` is `error`, or it is `replace` and that message is just being released.
    503: nothing was promised; send the message again with the same `id`.

    With `if_exists` `replace`, a delivery of the replaced message goes on, and its ack answers 409. With `extend`, a
    message that is ready stays as it is, and one that is leased is replaced. If several sends replace or extend a
    message at once, the answer is the message after the last of them. Once the message of an id has ended, the id is
    free: each of these sends makes a new message.

    Consumers get `body` as compact JSON in UTF-8, with every digit of its numbers; for a text content type as the text
    in UTF-8. They get `body_base64` as the decoded bytes.

    The request's headers `traceparent` and `tracestate` become headers of the message, if it has neither.
    """
    max_body_bytes = call.caller.max_body(pools.settings.max_body)
    topic = call.topic
    draft = await call.read(partial(_draft, topic, max_body_bytes))
    call.caller.check_target(draft.envelope.target)
    draft = trace_context.carried(draft, trace_context.given(call.scope["headers"]))
    service = pools.serving(topic)
    if call.tried is not None:
        draft = call.tried.named(draft)
        found = await _sent_before(service, call.tried, [draft])
        if found:
            return JsonAnswer(message_out(found[0].message), 201, [(b"location", _location(found[0]))])
    sent = await service.upserting.send(draft, call.caller.maker)
    if sent.replayed or sent.changed:
        return JsonAnswer(message_out(sent.message), headers=_REPLAYED if sent.replayed else ())
    return JsonAnswer(message_out(sent.message), 201, [(b"location", _location(sent))])


async def send_many(pools: Pools, call: ApiCall) -> Response:
    """Sends up to 1000 messages to one topic. Each is accepted or refused independently of the others.

    `results` has one entry for each message, in order: status 201 or 200 with the message, or another status with the
    error. 503 in an entry: nothing was promised for that message; send it again with the same `id`."""
    topic, max_body_bytes = call.topic, call.caller.max_body(pools.settings.max_body)
    results, drafts = await call.read(
        lambda document: _drafts(topic, document, max_body_bytes, call.request_id, call.caller)
    )
    context = trace_context.given(call.scope["headers"])
    sent = [trace_context.carried(draft, context) for draft in drafts.values()]
    service, found = pools.serving(topic), dict[int, Sent]()
    if call.tried is not None:
        sent = [call.tried.named(draft, at) for at, draft in zip(drafts, sent, strict=True)]
        found = await _sent_before(service, call.tried, sent)
    left = [draft for at, draft in enumerate(sent) if at not in found]
    results_of_left = iter(await service.upserting.send_many(left, call.caller.maker) if left else [])
    outcomes = [found[at] if at in found else next(results_of_left) for at in range(len(sent))]
    call.is_final = not any(isinstance(outcome, Unavailable) for outcome in outcomes)
    for index, outcome in zip(drafts, outcomes, strict=True):
        if isinstance(outcome, Sent):
            status = 200 if outcome.replayed or outcome.changed else 201
            results[index] = BatchItem(status=status, message=message_out(outcome.message))
        else:
            results[index] = _failure(outcome, index, call.request_id)
    return JsonAnswer(BatchOut(results=[results[index] for index in sorted(results)]))


async def _sent_before(service: Service, tried: Try, drafts: Sequence[Draft]) -> dict[int, Sent]:
    """Returns the messages that an earlier try of the request has sent, by the index of the draft in `drafts`."""
    if tried.began_ms is None or not drafts:
        return {}
    messages = await service.lookup.get_many(drafts[0].topic, [draft.id or "" for draft in drafts])
    return {
        at: Sent(message=message, replayed=False)
        for at, (draft, message) in enumerate(zip(drafts, messages, strict=True))
        if message is not None and tried.sent_before(draft, message)
    }


def _draft(topic: str, max_body_bytes: int, document: bytes) -> Draft:
    request = read(SendRequest, document)
    return request.draft(topic, envelope_of(request, max_body_bytes))


def _drafts(
    topic: str, batch: bytes, max_body_bytes: int, identity: str, caller: Caller
) -> tuple[dict[int, BatchItem], dict[int, Draft]]:
    """Reads a batch. Returns the results of refused messages, and the drafts of the others, by index."""
    results: dict[int, BatchItem] = {}
    drafts: dict[int, Draft] = {}
    for index, document in enumerate(messages_of(batch)):
        try:
            draft = _draft(topic, max_body_bytes, document)
            caller.check_target(draft.envelope.target)
            drafts[index] = draft
        except BrokenJSON:
            raise
        except BridgeError as error:
            results[index] = _failure(error, index, identity)
    return results, drafts


def _failure(error: BridgeError, index: int, identity: str) -> BatchItem:
    """Returns the result of a refused message. It names fields from the top of the request: `messages.3.delay`."""
    if isinstance(error, InvalidRequest):
        error = InvalidRequest(*(renamed(field_error, f"messages.{index}.") for field_error in error.errors))
    elif isinstance(error, TooLarge):
        error = error.under(f"messages.{index}.")
    problem = problems.problem(error, identity)
    return BatchItem(status=problem.status, error=problem)


def _location(sent: Sent) -> bytes:
    topic, message_id = sent.message.record.topic, sent.message.record.id
    return b"%b%b" % (
        _messages_of(topic),
        (message_id if message_id.isalnum() else quote(message_id, safe="")).encode(),
    )


@lru_cache(maxsize=1_024)
def _messages_of(topic: str) -> bytes:
    return f"/v1/topics/{quote(topic, safe='')}/messages/".encode()


_REPLAY = {
    "Idempotent-Replay": "`true`: the answer is the message that was sent earlier. Absent: `if_exists` has changed it"
}
_REPLAYED = [(b"idempotent-replay", b"true")]

OPERATIONS = (
    Operation(
        name="send",
        summary="Send a message",
        group="messages",
        method="POST",
        path=f"{TOPIC}/messages",
        run=send,
        need=Need(scope=Scope.SEND, rated=True),
        takes=SendRequest,
        is_keyed=True,
        examples=examples.SENDS,
        answers={
            201: ResponseDoc(
                description="The message is durable",
                model=MessageOut,
                example=examples.MESSAGE,
                headers={"Location": "The path of the message"},
            ),
            200: ResponseDoc(
                description="A live message already has this id: that message, as `if_exists` leaves it",
                model=MessageOut,
                example=examples.MESSAGE,
                headers=_REPLAY,
            ),
        },
        problems=(400, 409, 413, 422, 503),
    ),
    Operation(
        name="send_many",
        summary="Send up to 1000 messages",
        group="messages",
        method="POST",
        path=f"{TOPIC}{BATCH}",
        run=send_many,
        need=Need(scope=Scope.SEND, rated=True),
        takes=BatchRequest,
        is_keyed=True,
        examples={
            "two messages, one with a delay that is too long": {
                "messages": [examples.SEND, {"body": {"order": 1002}, "delay": "1000d"}]
            }
        },
        answers={
            200: ResponseDoc(
                description="One result for each message, in order",
                model=BatchOut,
                example={
                    "results": [
                        {"status": 201, "message": examples.MESSAGE},
                        to_builtins(_failure(examples.TOO_LATE, 1, "5f0c9a7d1e3b48266a1d0f27")),
                    ]
                },
            )
        },
        problems=(400, 413, 422, 503),
    ),
)
