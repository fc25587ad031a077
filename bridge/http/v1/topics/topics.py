"""Lists topics with their counts, sets their policies, and removes them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from starlette.responses import Response

from bridge.access.decision import Need
from bridge.access.token import Scope
from bridge.http.v1.contract.queries import RemoveQuery, TopicsQuery
from bridge.http.v1.document import examples
from bridge.http.v1.operation.call import ApiCall, JsonAnswer
from bridge.http.v1.operation.operation import TOPIC, Operation, ResponseDoc
from bridge.http.v1.topics.policy import PolicyOut, PolicyPatch, PolicyRequest, policy_out
from bridge.http.v1.topics.shown import RemovedOut, TopicOut, TopicsOut, topic_out

if TYPE_CHECKING:
    from bridge.service.pools.pools import Pools


async def list_topics(pools: Pools, call: ApiCall) -> Response:
    """Returns a page of the topics, by name, with counts, lateness, policy and queue names. With a token, the page has
    only topics that the token may use.

    Give `next_cursor` as `cursor` for the next page. It is null on the last page."""
    query = call.query(TopicsQuery)
    page = await pools.topic_page(sees=call.caller.sees, prefix=query.prefix, limit=query.limit, cursor=query.cursor)
    return JsonAnswer(TopicsOut(topics=[topic_out(info) for info in page.items], next_cursor=page.next_cursor))


async def look_at_topic(pools: Pools, call: ApiCall) -> Response:
    """Returns one topic: counts by state, when its waiting messages are due, how late recent releases were, its policy
    and the names of its queues.

    404: there is no such topic."""
    topic = call.topic
    return JsonAnswer(topic_out(await pools.serving(topic).topics.info(topic)))


async def put_policy(pools: Pools, call: ApiCall) -> Response:
    """Replaces the whole policy of the topic, and creates the topic if there is none.

    A field that is left out or null takes the bridge's setting. All bridge processes use the policy within two seconds.

    403: the token does not allow the request, or the topic is new and the token may make no more topics."""
    topic, wanted = call.topic, await call.body(PolicyRequest)
    return JsonAnswer(
        policy_out(await pools.serving(topic).topics.put_policy(topic, wanted.policy(), call.caller.maker))
    )


async def patch_policy(pools: Pools, call: ApiCall) -> Response:
    """Changes fields of the topic's policy: a JSON merge patch (RFC 7396), as `application/json` or
    `application/merge-patch+json`.

    A field that is left out stays as it is. Null sets it to its default. All bridge processes use the policy within two
    seconds.

    404: there is no such topic.
    """
    topic, patch = call.topic, await call.body(PolicyPatch)
    return JsonAnswer(policy_out(await pools.serving(topic).topics.change_policy(topic, patch.onto)))


async def pause(pools: Pools, call: ApiCall) -> Response:
    """Stops the releases and pulls of the topic. The rest of its policy stays as it is. Repeating the call is harmless.

    404: there is no such topic."""
    return await _set_paused(pools, call.topic, True)


async def resume(pools: Pools, call: ApiCall) -> Response:
    """Ends a pause. The rest of the topic's policy stays as it is. Repeating the call is harmless.

    404: there is no such topic."""
    return await _set_paused(pools, call.topic, False)


async def _set_paused(pools: Pools, topic: str, paused: bool) -> Response:
    policy = await pools.serving(topic).topics.change_policy(topic, lambda former: replace(former, paused=paused))
    return JsonAnswer(policy_out(policy))


async def remove_topic(pools: Pools, call: ApiCall) -> Response:
    """Removes an empty topic with its queues; with `force=true` also a topic with messages, which are deleted.

    404: there is no such topic. 409: the topic or one of its queues has messages, and `force` is not `true`."""
    topic, query = call.topic, call.query(RemoveQuery)
    call.changed = await pools.serving(topic).topics.remove(topic, force=query.force == "true")
    await pools.default.given_names.remove(topic)
    return JsonAnswer(RemovedOut(topic=topic, removed=True))


OPERATIONS = (
    Operation(
        name="list_topics",
        summary="List topics",
        group="topics",
        method="GET",
        path="/v1/topics",
        run=list_topics,
        need=Need(scope=Scope.LOOK),
        query=TopicsQuery,
        answers={
            200: ResponseDoc(
                description="A page of topics",
                model=TopicsOut,
                example={"topics": [examples.TOPIC], "next_cursor": None},
            )
        },
    ),
    Operation(
        name="look_at_topic",
        summary="Look up a topic",
        group="topics",
        method="GET",
        path=TOPIC,
        run=look_at_topic,
        need=Need(scope=Scope.LOOK),
        answers={200: ResponseDoc(description="The topic", model=TopicOut, example=examples.TOPIC)},
        problems=(404, 422, 503),
    ),
    Operation(
        name="put_policy",
        summary="Create a topic or replace its policy",
        group="topics",
        method="PUT",
        path=TOPIC,
        run=put_policy,
        need=Need(scope=Scope.ADMIN),
        takes=PolicyRequest,
        examples=examples.POLICIES,
        answers={200: ResponseDoc(description="The policy", model=PolicyOut, example=examples.POLICY)},
        problems=(400, 413, 422, 503),
    ),
    Operation(
        name="patch_policy",
        summary="Change fields of a topic's policy",
        group="topics",
        method="PATCH",
        path=TOPIC,
        run=patch_policy,
        need=Need(scope=Scope.ADMIN),
        takes=PolicyPatch,
        examples=examples.POLICY_PATCHES,
        answers={200: ResponseDoc(description="The whole policy", model=PolicyOut, example=examples.POLICY)},
        problems=(400, 404, 413, 422, 503),
    ),
    Operation(
        name="pause",
        summary="Pause a topic",
        group="topics",
        method="POST",
        path=f"{TOPIC}/pause",
        run=pause,
        need=Need(scope=Scope.ADMIN),
        answers={200: ResponseDoc(description="The policy", model=PolicyOut, example=examples.PAUSED)},
        problems=(404, 422, 503),
    ),
    Operation(
        name="resume",
        summary="Resume a paused topic",
        group="topics",
        method="POST",
        path=f"{TOPIC}/resume",
        run=resume,
        need=Need(scope=Scope.ADMIN),
        answers={200: ResponseDoc(description="The policy", model=PolicyOut, example=examples.POLICY)},
        problems=(404, 422, 503),
    ),
    Operation(
        name="remove_topic",
        summary="Remove a topic",
        group="topics",
        method="DELETE",
        path=TOPIC,
        run=remove_topic,
        need=Need(scope=Scope.ADMIN),
        query=RemoveQuery,
        answers={
            200: ResponseDoc(
                description="The topic is removed", model=RemovedOut, example={"topic": "orders", "removed": True}
            )
        },
        problems=(404, 409, 422, 503),
    ),
)
