"""Calls the schedules of a bridge over HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.integration.topic import Json, Topic


@dataclass(frozen=True, slots=True)
class Schedule:
    """The calls about one schedule, which sends to one topic. Each asserts its status, and returns the JSON."""

    topic: Topic
    name: str

    async def call(self, method: str, path: str = "", body: object = None, *, expect: int = 200) -> Any:
        answer = await self.topic.client.request(method, f"/v1/schedules/{self.name}{path}", json=body)
        assert answer.status_code == expect, answer.text
        return answer.json()

    async def put(self, *, expect: int = 201, **fields: Any) -> Json:
        wanted = {"topic": self.topic.name, "message": {"body": "tick"}} | fields
        put: Json = await self.call("PUT", "", wanted, expect=expect)
        return put

    async def look(self, *, expect: int = 200) -> Json:
        found: Json = await self.call("GET", expect=expect)
        return found

    async def ids(self, **query: str) -> list[str]:
        """The ids of its messages that wait, by due time."""
        answer = await self.topic.client.get(
            "/v1/messages", params={"topic": self.topic.name, "id_prefix": f"{self.name}@", "limit": "1000", **query}
        )
        return [message["id"] for message in answer.json()["items"]]
