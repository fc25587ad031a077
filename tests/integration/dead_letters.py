"""Makes and lists dead letters."""

from __future__ import annotations

from typing import Any

from tests.integration.topic import Topic
from tests.waiting import pause


async def make_dead(topic: Topic, *ids: str) -> None:
    """Makes dead letters with these ids, oldest first."""
    for one in ids:
        await topic.send(id=one, body={"of": one}, max_retry=0)
        await bury_next(topic)


async def bury_next(topic: Topic, *, reason: str = "refused") -> None:
    """Makes a dead letter of the next message, which has no retries."""
    dead = await topic.nack(await topic.pull_one(), reason=reason)
    assert (dead["state"], dead["attempts"], dead["reason"]) == ("dead", 1, reason)


async def until_dead(topic: Topic, message_id: str) -> None:
    """Waits until the message is a dead letter. Until its first one, a topic has no dead queue."""
    while message_id not in await dead_ids(topic):
        await pause()


async def dead_ids(topic: Topic) -> list[str]:
    return [letter["id"] for letter in await dead_letters(topic)]


async def dead_letters(topic: Topic) -> list[Any]:
    items: list[Any] = (await topic.call("GET", "/dead"))["items"]
    return items
