"""Reads all that a bridge has stored, so that a test sees any change, and makes a topic with a message in every
state."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import httpx2
from redis.asyncio import Redis

from tests.integration.own import Own
from tests.integration.topic import Topic

KEPT = "kept"
STATES = ("waiting", "leased", "acked", "dead", "deleted")
State = dict[str, object]
_FLEETING = re.compile(rb"\}/a/|/probe$|\{:schedules\}/clock$")


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    own: Own
    redis: Redis
    management: httpx2.AsyncClient
    receipts: dict[str, str] = field(default_factory=dict)

    async def state(self) -> State:
        """Returns every key of the bridge as Redis would save it, every queue with its count, and every binding. Left
        out is what changes by itself: notes of arrivals, keys of probes, and the clock of schedules."""
        keys = [key async for key in self.redis.scan_iter(f"{self.own.settings['BRIDGE_REDIS_PREFIX']}/*", count=1_000)]
        state: State = {key.decode(): await self.redis.dump(key) for key in keys if not _FLEETING.search(key)}
        async with self.own.amqp.connection.channel() as channel:
            for queue in await self._all("queues"):
                declared = await channel.declare_queue(queue["name"], passive=True)
                state[f"queue {queue['name']}"] = declared.declaration_result.message_count
        for binding in await self._all("bindings"):
            state[f"{binding['source']} to {binding['destination']}: {binding['routing_key']}"] = True
        return state

    async def _all(self, what: str) -> list[dict[str, str]]:
        answer = await self.management.get(f"/api/{what}/{self.own.vhost}", params={"disable_stats": "true"})
        found: list[dict[str, str]] = answer.raise_for_status().json()
        return found

    async def prepare(self) -> None:
        """Makes the topic and its messages, named after their states. None of them moves by itself within hours."""
        topic = Topic(self.own.topic.client, KEPT)
        for name in ("leased", "acked", "dead"):
            await topic.send(id=name, max_retry=0)
            message = await topic.pull_one(lease="12h")
            self.receipts[name] = message["receipt"]
            if name == "acked":
                await topic.ack(message)
            elif name == "dead":
                await topic.nack(message)
                await topic.until_state("dead", "dead")
        await topic.send(id="waiting", delay="7d")
        await topic.send(id="deleted", delay="7d")
        await topic.delete("deleted")


def difference(before: State, after: State) -> dict[str, tuple[object, object]]:
    return {key: (before.get(key), after.get(key)) for key in before | after if before.get(key) != after.get(key)}
