"""Topics: what is in them, and what they decide for their messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response

from bridge.access.decision import Need
from bridge.access.token import Scope
from bridge.http.v1 import examples
from bridge.http.v1.call import Call, json_answer
from bridge.http.v1.operation import TOPIC, Answer, Operation
from bridge.http.v1.policy import PolicyOut, PolicyRequest, policy_json
from bridge.http.v1.queries import NoQuery, RemoveQuery
from bridge.http.v1.results import RemovedOut, TopicOut, TopicsOut, topic_json

if TYPE_CHECKING:
    from bridge.service.pools import Pools


async def list_topics(pools: Pools, call: Call) -> Response:
    """All topics, each with counts, lateness, policy and queue names; of a token, the topics that it is for."""
    call.query(NoQuery)
    infos = await pools.topic_infos()
    return json_answer({"topics": [topic_json(info) for info in infos if call.caller.sees(info.topic)]})


async def look_at_topic(pools: Pools, call: Call) -> Response:
    """Counts by state, when the waiting messages are due, how late the latest were, the policy, the queues' names."""
    topic = call.topic
    return json_answer(topic_json(await pools.serving(topic).topics.info(topic)))


async def put_policy(pools: Pools, call: Call) -> Response:
    """Replaces the topic's whole policy, making the topic where there is none; what is not given takes the bridge's
    setting."""
    topic, wanted = call.topic, await call.body(PolicyRequest)
    return json_answer(policy_json(await pools.serving(topic).topics.put_policy(topic, wanted.policy())))


async def remove_topic(pools: Pools, call: Call) -> Response:
    """Removes an empty topic, or one with its messages by `force=true`."""
    topic, query = call.topic, call.query(RemoveQuery)
    await pools.serving(topic).topics.remove(topic, force=query.force == "true")
    return json_answer({"topic": topic, "removed": True})


OPERATIONS = (
    Operation(
        name="list_topics",
        group="topics",
        method="GET",
        path="/v1/topics",
        run=list_topics,
        need=Need(scope=Scope.LOOK),
        answers={200: Answer(says="The topics", model=TopicsOut, example={"topics": [examples.TOPIC]})},
    ),
    Operation(
        name="look_at_topic",
        group="topics",
        method="GET",
        path=TOPIC,
        run=look_at_topic,
        need=Need(scope=Scope.LOOK),
        answers={200: Answer(says="The topic", model=TopicOut, example=examples.TOPIC)},
        problems=(404, 422, 503),
    ),
    Operation(
        name="put_policy",
        group="topics",
        method="PUT",
        path=TOPIC,
        run=put_policy,
        need=Need(scope=Scope.ADMIN),
        takes=PolicyRequest,
        examples=examples.POLICIES,
        answers={200: Answer(says="The policy", model=PolicyOut, example=examples.POLICY)},
        problems=(400, 409, 413, 422, 503),
    ),
    Operation(
        name="remove_topic",
        group="topics",
        method="DELETE",
        path=TOPIC,
        run=remove_topic,
        need=Need(scope=Scope.ADMIN),
        query=RemoveQuery,
        answers={200: Answer(says="It is gone", model=RemovedOut, example={"topic": "orders", "removed": True})},
        problems=(404, 409, 422, 503),
    ),
)
