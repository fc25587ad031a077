"""Defines a topic as clients read it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from bridge.http.v1.topics.policy import EffectiveOut, PolicyOut, effective_json, policy_json
from bridge.model.values import TopicInfo


class QueuesOut(BaseModel):
    ready: str
    dead: str


class TopicOut(BaseModel):
    topic: str
    counts: Annotated[dict[str, int], Field(description="by state")]
    overdue: Annotated[int, Field(description="messages that wait although they are past due")]
    waiting_by_due: Annotated[
        dict[str, int],
        Field(description="waiting messages by time until due: up to 1m, 10m, 30m, 1h, 6h, 1d, 7d, 30d, beyond"),
    ]
    lateness_ms: Annotated[
        dict[str, float | None],
        Field(description="p50, p90, p99, max of this process's latest releases"),
    ]
    policy: Annotated[PolicyOut, Field(description="what the topic sets; null: the bridge's setting")]
    effective: EffectiveOut
    queues: QueuesOut


class TopicsOut(BaseModel):
    topics: list[TopicOut]
    next_cursor: str | None


class RemovedOut(BaseModel):
    topic: str
    removed: Literal[True]


def topic_json(info: TopicInfo) -> dict[str, Any]:
    """Returns the topic as `TopicOut` documents it."""
    return {
        "topic": info.topic,
        "counts": info.counts,
        "overdue": info.overdue,
        "waiting_by_due": info.waiting_by_due,
        "lateness_ms": info.lateness_ms,
        "policy": policy_json(info.policy.own),
        "effective": effective_json(info.policy),
        "queues": {"ready": info.ready_queue, "dead": info.dead_queue},
    }
