"""Defines the form in which clients read a topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta

from bridge.http.structs import Answer
from bridge.http.v1.topics.policy import EffectiveOut, PolicyOut, effective_out, policy_out
from bridge.model.values import TopicInfo


class QueuesOut(Answer):
    ready: str
    dead: str


class TopicOut(Answer):
    topic: str
    counts: Annotated[Mapping[str, int], Meta(description="by state")]
    overdue: Annotated[int, Meta(description="messages that wait although they are past due")]
    waiting_by_due: Annotated[
        Mapping[str, int],
        Meta(description="waiting messages by time until due: up to 1m, 10m, 30m, 1h, 6h, 1d, 7d, 30d, beyond"),
    ]
    lateness_ms: Annotated[
        Mapping[str, float | None],
        Meta(description="p50, p90, p99, max of this process's latest releases"),
    ]
    policy: Annotated[PolicyOut, Meta(description="what the topic sets; null: the bridge's setting")]
    effective: EffectiveOut
    queues: QueuesOut


class TopicsOut(Answer):
    topics: list[TopicOut]
    next_cursor: str | None


class RemovedOut(Answer):
    topic: str
    removed: Literal[True]


def topic_out(info: TopicInfo) -> TopicOut:
    return TopicOut(
        topic=info.topic,
        counts=info.counts,
        overdue=info.overdue,
        waiting_by_due=info.waiting_by_due,
        lateness_ms=info.lateness_ms,
        policy=policy_out(info.policy.own),
        effective=effective_out(info.policy),
        queues=QueuesOut(ready=info.ready_queue, dead=info.dead_queue),
    )
