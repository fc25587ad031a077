"""Shows the timeline of a message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta
from starlette.responses import Response

from bridge.access.decision import Need
from bridge.access.token import Scope
from bridge.http.structs import Answer
from bridge.http.v1.contract.scalars import ShownInstant
from bridge.http.v1.document import examples
from bridge.http.v1.operation.call import ApiCall, JsonAnswer
from bridge.http.v1.operation.operation import TOPIC, Operation, ResponseDoc
from bridge.model.durations import format_instant
from bridge.model.timeline import Transition, What

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools


class TransitionOut(Answer):
    at: ShownInstant
    what: What
    attempt: Annotated[int, Meta(description="deliveries so far, as the message's `attempts` counts them")]
    slot: Annotated[
        str | None,
        Meta(description="the queue in which the message began to wait; in a bundle it may wait in a neighbour"),
    ]
    late_ms: Annotated[int | None, Meta(description="of `released`: after it was due; of `returned`: after its lease")]
    token_id: Annotated[str | None, Meta(description="null: no token was asked for, or the bridge itself did it")]
    reason: str | None


class TimelineOut(Answer):
    items: list[TransitionOut]
    complete: Annotated[bool, Meta(description="false: older transitions are missing")]
    topic: str
    id: str


async def look_at_timeline(pools: Pools, call: ApiCall) -> Response:
    """Returns the last 16 transitions of a message, the oldest first. The bridge keeps them as long as the record of
    the message.

    A message that is due at once, or in a topic with direct release, usually becomes ready without a `released`.
    `complete` is false if older transitions were dropped, or happened while the bridge kept no timelines
    (`BRIDGE_TIMELINE`). 404: the topic has no message with this id, or its retention time is over."""
    topic, message_id = call.topic, call.message_id
    timeline = await pools.serving(topic).timelines.get(topic, message_id)
    items = [_transition_out(item) for item in timeline.items]
    return JsonAnswer(TimelineOut(items=items, complete=timeline.complete, topic=topic, id=message_id))


def _transition_out(item: Transition) -> TransitionOut:
    return TransitionOut(
        at=format_instant(item.at_ms),
        what=item.what,
        attempt=item.attempt,
        slot=item.slot,
        late_ms=item.late_ms,
        token_id=item.token_id,
        reason=item.reason,
    )


OPERATIONS = (
    Operation(
        name="look_at_timeline",
        summary="Look at what happened to a message",
        group="messages",
        method="GET",
        path=f"{TOPIC}/messages/{{id}}/timeline",
        run=look_at_timeline,
        need=Need(scope=Scope.LOOK),
        answers={200: ResponseDoc(description="The message's timeline", model=TimelineOut, example=examples.TIMELINE)},
        problems=(404, 422, 503),
    ),
)
