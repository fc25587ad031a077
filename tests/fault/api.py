"""Calls one bridge's HTTP API and retries as the API says: after no answer or a 5xx, with the same id."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from time import monotonic, time
from typing import Any

import httpx2

from tests.waiting import pause

PATIENCE_S = 180.0  # long enough for three nodes to restart on two cores
_PAUSE_S = 0.2

Pulled = dict[str, Any]


def now_ms() -> int:
    """The wall clock in whole Unix milliseconds. Redis shares it on one machine."""
    return int(time() * 1_000)


def instant_ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1_000)


class Api:
    """The API of one bridge. `refused` counts calls that got a 5xx or no answer."""

    def __init__(self, http: httpx2.AsyncClient, url: str) -> None:
        self._http = http
        self._url = url
        self.refused = 0

    async def call(self, method: str, path: str, json: Any = None) -> httpx2.Response:
        """Calls once, without a retry."""
        return await self._http.request(method, f"{self._url}{path}", json=json)

    async def insist(self, method: str, path: str, json: Any = None) -> httpx2.Response:
        """Tries until an answer is below 500. Raises TimeoutError after PATIENCE_S."""
        give_up_at = monotonic() + PATIENCE_S
        while True:
            try:
                response = await self.call(method, path, json)
            except httpx2.TransportError as error:
                last: object = repr(error)
            else:
                if response.status_code < 500:
                    return response
                last = response.text
            self.refused += 1
            if monotonic() > give_up_at:
                raise TimeoutError(f"{method} {path} is refused for {PATIENCE_S:.0f} s: {last}")
            await pause(_PAUSE_S)

    async def send(self, topic: str, message_id: str, **fields: Any) -> httpx2.Response:
        """Sends once, without a retry."""
        return await self.call("POST", f"/v1/topics/{topic}/messages", {"id": message_id, "body": message_id, **fields})

    async def sent(self, topic: str, message_id: str, **fields: Any) -> dict[str, Any]:
        """Sends until the message is accepted, and returns it."""
        body = {"id": message_id, "body": message_id, **fields}
        response = await self.insist("POST", f"/v1/topics/{topic}/messages", body)
        assert response.status_code in (200, 201), response.text
        return dict(response.json())

    async def look(self, topic: str, message_id: str) -> dict[str, Any]:
        response = await self.insist("GET", f"/v1/topics/{topic}/messages/{message_id}")
        assert response.status_code == 200, response.text
        return dict(response.json())

    async def pull(self, topic: str, *, most: int = 100, wait_ms: int = 0, lease_ms: int = 30_000) -> list[Pulled]:
        """Pulls, and retries until there is an answer."""
        body = {"max": most, "wait": wait_ms, "lease": lease_ms}
        response = await self.insist("POST", f"/v1/topics/{topic}/pull", body)
        assert response.status_code == 200, response.text
        return list(response.json()["messages"])

    async def pull_one(self, topic: str, *, lease_ms: int = 30_000) -> Pulled:
        """Pulls the next message, which must come within the longest long poll."""
        (message,) = await self.pull(topic, most=1, wait_ms=30_000, lease_ms=lease_ms)
        return message

    async def ack(self, topic: str, receipts: Sequence[str]) -> list[str]:
        """The result of each receipt."""
        response = await self.insist("POST", f"/v1/topics/{topic}/ack", {"receipts": list(receipts)})
        assert response.status_code == 200, response.text
        return [one["result"] for one in response.json()["results"]]

    async def drain(self, topic: str, count: int) -> list[Pulled]:
        """Pulls and acks until `count` different messages came, and then all that are ready."""
        pulled: list[Pulled] = []
        while got := await self.pull(topic, wait_ms=0 if len({one["id"] for one in pulled}) >= count else 30_000):
            assert set(await self.ack(topic, [one["receipt"] for one in got])) == {"acked"}
            pulled += got
        return pulled
