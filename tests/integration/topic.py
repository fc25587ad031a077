"""Calls one topic of a bridge over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import httpx2

from bridge.model.durations import parse_instant_ms
from tests.waiting import pause

Json = dict[str, Any]

PATIENCE = "60s"  # the longest long poll, so that a poll nothing wakes exceeds the time limit of its test


class Topic:
    """The calls on one topic through one bridge. Each asserts the status it expects and returns the JSON."""

    def __init__(self, client: httpx2.AsyncClient, name: str) -> None:
        self.client = client
        self.name = name
        self.ready_queue = f"ready.{name}"
        self.dead_queue = f"dead.{name}"
        self._path = f"/v1/topics/{quote(name, safe='')}"

    def through(self, client: httpx2.AsyncClient) -> Topic:
        """The same topic through another bridge."""
        return Topic(client, self.name)

    def beside(self, suffix: str) -> Topic:
        """Another topic, named after this one with the suffix."""
        return Topic(self.client, f"{self.name}.{suffix}")

    async def call(self, method: str, path: str = "", body: object = None, *, expect: int = 200) -> Any:
        answer = await self.client.request(method, self._path + path, json=body)
        assert answer.status_code == expect, answer.text
        return answer.json()

    async def send(self, body: Any = "abc", *, expect: int = 201, **fields: Any) -> Json:
        content = {} if "body_base64" in fields else {"body": body}
        sent: Json = await self.call("POST", "/messages", {**content, **fields}, expect=expect)
        return sent

    async def send_many(self, *messages: Json) -> list[Json]:
        results: list[Json] = (await self.call("POST", "/messages/batch", {"messages": messages}))["results"]
        return results

    async def look(self, message_id: str, *, expect: int = 200) -> Json:
        found: Json = await self.call("GET", _message(message_id), expect=expect)
        return found

    async def state(self, message_id: str) -> str:
        state: str = (await self.look(message_id))["state"]
        return state

    async def until_state(self, message_id: str, state: str) -> Json:
        """Asks until the message has the state. A poll of an idle topic paces the loop, and the test's time limit ends
        it."""
        while (found := await self.look(message_id))["state"] != state:
            await pause()
        return found

    async def until_found(self, message_id: str) -> Json:
        """Asks until the message has its record. The test's time limit ends the wait."""
        while (answer := await self.client.get(self._path + _message(message_id))).status_code != 200:
            await pause()
        found: Json = answer.json()
        return found

    async def delete(self, message_id: str, *, expect: int = 200, query: str = "") -> Json:
        deleted: Json = await self.call("DELETE", _message(message_id) + query, expect=expect)
        return deleted

    async def move(self, message_id: str, *, expect: int = 200, **fields: Any) -> Json:
        moved: Json = await self.call("PATCH", _message(message_id), fields, expect=expect)
        return moved

    async def pull(self, *, wait: str | int = PATIENCE, **fields: Any) -> list[Json]:
        answer = await self.call("POST", "/pull", {"wait": wait, **fields})
        messages: list[Json] = answer["messages"]
        return messages

    async def pull_one(self, **fields: Any) -> Json:
        (message,) = await self.pull(**fields)
        return message

    async def pull_ids(self, count: int, **fields: Any) -> list[str]:
        """Pulls and acknowledges `count` messages. Returns their ids in order of arrival."""
        ids: list[str] = []
        while len(ids) < count:
            pulled = await self.pull(**fields)
            if pulled:
                acked = await self.ack_many(receipts=[message["receipt"] for message in pulled])
                assert acked == ["acked"] * len(pulled)
            ids += [message["id"] for message in pulled]
        return ids

    async def drain(self, until_id: str) -> list[str]:
        """Pulls and acknowledges until the marker with this id arrives. Returns the ids that arrived before it."""
        ids: list[str] = []
        while (message := await self.pull_one())["id"] != until_id:
            ids.append(message["id"])
            await self.ack(message)
        await self.ack(message)
        return ids

    async def ack(self, message: Json, *, expect: int = 200) -> Json:
        return await self._settle("ack", message, {}, expect)

    async def nack(self, message: Json, *, expect: int = 200, **fields: Any) -> Json:
        return await self._settle("nack", message, fields, expect)

    async def extend(self, message: Json, lease: str, *, expect: int = 200) -> Json:
        return await self._settle("extend", message, {"lease": lease}, expect)

    async def ack_many(self, **shown: Sequence[str]) -> list[str]:
        answer = await self.call("POST", "/ack", shown)
        return [one["result"] for one in answer["results"]]

    async def put_policy(self, **policy: Any) -> Json:
        put: Json = await self.call("PUT", "", policy)
        return put

    async def info(self) -> Json:
        info: Json = await self.call("GET")
        return info

    async def _settle(self, how: str, message: Json, fields: Json, expect: int) -> Json:
        """Calls ack, nack or extend for the message, with its receipt if it has one."""
        receipt = {"receipt": message["receipt"]} if "receipt" in message else {}
        settled: Json = await self.call(
            "POST", f"{_message(message['id'])}/{how}", {**receipt, **fields}, expect=expect
        )
        return settled


def due_ms(message: Json) -> int:
    """The due instant of the message, in Unix ms."""
    return parse_instant_ms(message["due_at"])


def _message(message_id: str) -> str:
    return f"/messages/{quote(message_id, safe='')}"
