"""Calls bulk actions, and makes messages for them."""

from __future__ import annotations

from typing import Any

from tests.integration.topic import Json, Topic
from tests.waiting import pause

BATCH = 1_000


async def act(topic: Topic, action: str, /, *, expect: int = 200, **fields: Any) -> Json:
    """Calls the action for the messages of the topic that match the fields."""
    wanted = {"topic": topic.name} | fields
    answer = await topic.client.post(f"/v1/messages:{action}", json=wanted)
    assert answer.status_code == expect, answer.text
    applied: Json = answer.json()
    return applied


async def send_numbered(topic: Topic, prefix: str, count: int, **fields: Any) -> list[str]:
    """Sends so many messages. Returns their ids."""
    ids = [f"{prefix}-{number:06}" for number in range(count)]
    for start in range(0, count, BATCH):
        some = [{"id": one, "body": one, **fields} for one in ids[start : start + BATCH]]
        assert all(result["status"] == 201 for result in await topic.send_many(*some))
    return ids


async def operation(topic: Topic, operation_id: str) -> Json:
    answer = await topic.client.get(f"/v1/operations/{operation_id}")
    assert answer.status_code == 200, answer.text
    found: Json = answer.json()
    return found


async def until_ended(topic: Topic, operation_id: str) -> Json:
    while (found := await operation(topic, operation_id))["state"] == "running":
        await pause()
    return found
