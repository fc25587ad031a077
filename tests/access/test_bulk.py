"""Tests that a token changes messages of its own topics only, and sees only operations that concern it."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx2
import orjson

from bridge.model.bulk import Bulk, BulkAction
from bridge.model.filter import Filter
from bridge.model.message import State
from bridge.model.reach import Reach
from bridge.model.ulids import new_ulid
from bridge.store.client import Store
from bridge.store.kept.operations import StoredOperations
from bridge.store.keys import Keys
from tests.access.conftest import Mint, id_of


async def test_token_changes_only_messages_of_its_topics(client: httpx2.AsyncClient, mint: Mint) -> None:
    names = [f"n-{uuid4().hex[:12]}" for _ in range(2)]
    tokens = [await mint.make("send", "admin", namespaces=[name]) for name in names]
    paths = [f"/v1/namespaces/{name}/topics/orders/messages" for name in names]
    for path, token in zip(paths, tokens, strict=True):
        sent = await client.post(path, json={"id": "bulk-1", "body": 1, "delay": "1h"}, headers=token)
        assert sent.status_code == 201

    async def delete(topic: str) -> httpx2.Response:
        return await client.post("/v1/messages:delete", json={"topic": topic, "id_prefix": "bulk"}, headers=tokens[0])

    everywhere, refused = await delete("*"), await delete(f"{names[1]}/orders")
    assert (everywhere.json()["matched"], everywhere.json()["done"]) == (1, 1)
    assert (refused.status_code, refused.json()["detail"]) == (403, "this token may not use this topic")
    states = [
        (await client.get(f"{path}/bulk-1", headers=token)).json()["state"]
        for path, token in zip(paths, tokens, strict=True)
    ]
    assert states == ["deleted", "waiting"]


async def test_token_sees_its_own_operations_and_those_on_its_topics(
    client: httpx2.AsyncClient, mint: Mint, store: Store
) -> None:
    name = f"n-{uuid4().hex[:12]}"
    owner, neighbour = await mint.make("admin", namespaces=[name]), await mint.make("admin", namespaces=["elsewhere"])
    everything = await mint.make("admin")

    async def begin(topic: str, token: dict[str, str]) -> str:
        wanted = Filter(topic=topic, states=(State.WAITING,), id_prefix="none")
        bulk = Bulk(action=BulkAction.DELETE, filter=wanted, reach=Reach(namespaces=(name,)), began_ms=1)
        operation_id = new_ulid()
        asked: dict[str, Any] = {**bulk.to_json(), "who": id_of(token), "version": 1}
        assert await StoredOperations(store, Keys("delay")).begin(operation_id, orjson.dumps(asked), 0)
        return operation_id

    own, on_topic = await begin(f"{name}*", owner), await begin(f"{name}/orders", everything)
    of_neighbour = await begin("else*", neighbour)
    for token, seen in (
        (owner, [on_topic, own]),
        (neighbour, [of_neighbour]),
        (everything, [of_neighbour, on_topic, own]),
    ):
        listed = (await client.get("/v1/operations", headers=token)).json()["items"]
        assert [one["id"] for one in listed if one["id"] in {own, on_topic, of_neighbour}] == seen
        for operation_id in (own, on_topic, of_neighbour):
            status = 200 if operation_id in seen else 404
            assert (await client.get(f"/v1/operations/{operation_id}", headers=token)).status_code == status
            cancelled = await client.post(f"/v1/operations/{operation_id}/cancel", headers=token)
            assert cancelled.status_code == status
    page = (await client.get("/v1/operations?limit=1", headers=owner)).json()
    behind = (await client.get(f"/v1/operations?limit=1&cursor={page['next_cursor']}", headers=owner)).json()
    assert [one["id"] for one in page["items"] + behind["items"]] == [on_topic, own]
    assert behind["next_cursor"] is None
