"""Tests that each call of an operator leaves one action, in the log and in Redis, and how the actions are listed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import httpx2
import pytest
import pytest_asyncio

from bridge.http.app import OPERATIONS
from bridge.model.action import Action
from bridge.model.durations import parse_instant_ms
from bridge.store.client import Store
from bridge.store.kept.actions import MOST, StoredActions
from bridge.store.keys import Keys
from bridge.store.replies import whole
from tests.access.conftest import Mint, id_of
from tests.forked_bridge import ForkedBridge
from tests.integration.dead_letters import make_dead
from tests.integration.topic import Topic
from tests.logged import lines, until_logged

Json = dict[str, Any]

WHATS = {operation.name for operation in OPERATIONS if operation.is_action}
_NODE = 100  # entries of a stream's node, which Redis removes as a whole
SECRET = "whsec_QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY="


class Operator:
    """A client with a token for everything in one namespace."""

    def __init__(self, client: httpx2.AsyncClient, namespace: str, header: dict[str, str]) -> None:
        self.client, self.namespace, self.header = client, namespace, header
        self.path = f"/v1/namespaces/{namespace}/topics/orders"
        self.topic = f"{namespace}/orders"

    async def call(self, method: str, rest: str = "", body: object = None, *, expect: int = 200) -> httpx2.Response:
        path = rest if rest.startswith("/v1/") else self.path + rest
        answer = await self.client.request(method, path, json=body)
        assert answer.status_code == expect, answer.text
        return answer

    async def actions(self, query: str = "") -> Json:
        answer = await self.client.get(f"/v1/actions?{query}")
        assert answer.status_code == 200, answer.text
        listed: Json = answer.json()
        return listed


@pytest_asyncio.fixture
async def operator(client: httpx2.AsyncClient, mint: Mint) -> AsyncIterator[Operator]:
    namespace = f"n-{uuid4().hex[:12]}"
    header = await mint.make("send", "consume", "admin", namespaces=[namespace], name="on-call")
    async with httpx2.AsyncClient(base_url=client.base_url, timeout=90, headers=header) as own:
        yield Operator(own, namespace, header)


async def test_each_call_of_an_operator_leaves_one_action(operator: Operator, guarded: list[ForkedBridge]) -> None:
    topic = Topic(operator.client, operator.topic)
    seen: list[Json] = []

    async def act(
        what: str, method: str, rest: str = "", body: object = None, *, expect: int = 200, **wanted: Any
    ) -> None:
        answer = await operator.call(method, rest, body, expect=expect)
        listed = (await operator.actions())["items"]
        assert listed[1:] == seen, what
        action = listed[0]
        assert parse_instant_ms(action.pop("at")) > 1_700_000_000_000
        assert action == {
            "what": what,
            "who": id_of(operator.header),
            "name": "on-call",
            "topic": operator.topic,
            "target": None,
            "count": None,
            "done": True,
            "request_id": answer.headers["x-request-id"],
            **wanted,
        }
        (line,) = lines(guarded[0], "operator.action", request_id=action["request_id"])
        shown = {name: value for name, value in action.items() if value is not None}
        assert line.items() >= shown.items()
        seen[:] = (await operator.actions())["items"]

    await act("put_policy", "PUT", body={"lease": "1m"})
    await act("patch_policy", "PATCH", body={"ttl": "1h"})
    await act("pause", "POST", "/pause")
    await act("resume", "POST", "/resume")
    url = "https://hooks.example.com/orders"
    await act("subscribe", "PUT", "/subscription", {"url": url, "secret": SECRET})
    await act("unsubscribe", "DELETE", "/subscription")
    name = f"{operator.namespace}.nightly"
    schedule, span = f"/v1/schedules/{name}", {"from": "2026-01-01T00:00:00Z", "to": "2026-01-01T00:00:01Z"}
    wanted = {"cron": "0 3 1 1 *", "topic": operator.topic, "message": {"body": 1, "ttl": "1ms"}}
    await act("put_schedule", "PUT", schedule, wanted, expect=201, target=name)
    for does in ("pause", "resume", "trigger"):
        await act(f"{does}_schedule", "POST", f"{schedule}/{does}", target=name)
    await act("backfill_schedule", "POST", f"{schedule}/backfill", span, target=name, count=0)
    await act("remove_schedule", "DELETE", schedule, target=name)
    # The ordinary life of a client leaves no action, and neither does a look or a refused call.
    await make_dead(topic, "a", "b", "c", "d", "e")
    await operator.call("POST", "/messages", {"id": "w", "body": 1, "delay": "1h"}, expect=201)
    await operator.call("PATCH", "/messages/w", {"delay": "2h"})
    await operator.call("DELETE", "/messages/w")
    await operator.call("GET", "/dead")
    for method, rest in (("DELETE", "/subscription"), ("POST", "/dead/w/replay"), ("DELETE", "/dead/w")):
        await operator.call(method, rest, expect=404)
    await operator.call("DELETE", expect=409)
    await operator.call("PUT", body={"lease": "soon"}, expect=422)
    await act("drop", "DELETE", "/dead/a", target="a", count=1)
    await act("drop_many", "DELETE", "/dead?max=1", count=1)
    await act("replay", "POST", "/dead/c/replay", target="c", count=1)
    await act("replay_many", "POST", "/dead/replay", {"max": 1}, count=1)
    await operator.call("POST", "/messages", {"id": "v", "body": 1, "delay": "1h"}, expect=201)
    waiting, letters = {"topic": operator.topic, "id_prefix": "v"}, {"topic": operator.topic, "reason": "refused"}
    await operator.call("POST", "/v1/messages:delete", {**waiting, "dry_run": True})
    await act("move_many", "POST", "/v1/messages:move", {**waiting, "delay": "2h"}, count=1)
    await act("run_many_now", "POST", "/v1/messages:run-now", waiting, count=1)
    await act("delete_many", "POST", "/v1/messages:delete", waiting, count=1)
    await act("replay_matching", "POST", "/v1/messages:replay", letters, count=1)
    await act("remove_topic", "DELETE", "?force=true", count=3)  # the three that were replayed
    assert {action["what"] for action in seen} == WHATS - {"cancel_operation"}
    assert [action["what"] for action in (await operator.actions(f"topic={operator.topic}"))["items"]] == [
        action["what"] for action in seen
    ]


async def test_token_sees_only_actions_on_its_topics(
    operator: Operator, client: httpx2.AsyncClient, mint: Mint, store: Store
) -> None:
    stored = StoredActions(store, Keys("delay"))
    await operator.call("PUT", body={})
    await stored.add(Action(what="token_revoke", who="command line", target="0f4c19a2b7de"))
    await stored.add(Action(what="pause", who="anybody", topic="n-of-others/orders"))
    everything = await mint.make("admin")
    latest = (await client.get("/v1/actions?limit=3", headers=everything)).json()["items"]
    assert [(one["what"], one["who"], one["topic"], one["request_id"] is None) for one in latest] == [
        ("pause", "anybody", "n-of-others/orders", True),
        ("token_revoke", "command line", None, True),
        ("put_policy", id_of(operator.header), operator.topic, False),
    ]
    assert [one["what"] for one in (await operator.actions())["items"]] == ["put_policy"]
    refused = await operator.client.get("/v1/actions?topic=n-of-others/orders")
    assert (refused.status_code, refused.json()["detail"]) == (403, "this token may not use this topic")
    of_others = await client.get("/v1/actions?topic=n-of-others%2Forders", headers=everything)
    assert {one["topic"] for one in of_others.json()["items"]} == {"n-of-others/orders"}


async def test_pages_show_each_action_once_the_newest_first(operator: Operator) -> None:
    calls = ["/pause", "/resume"] * 3
    await operator.call("PUT", body={})
    for rest in calls:
        await operator.call("POST", rest)
    pages: list[list[str]] = []
    cursor = ""
    while True:
        page = await operator.actions(f"limit=3{cursor}")
        pages.append([one["what"] for one in page["items"]])
        if page["next_cursor"] is None:
            break
        cursor = f"&cursor={page['next_cursor']}"
    newest_first = ["resume", "pause"] * 3 + ["put_policy"]
    assert pages == [newest_first[:3], newest_first[3:6], newest_first[6:]]
    # Of a message; no place; a place that is too large for Redis; a moment that no action has.
    for forged in ("MTc5NjExNTYwMDAwMC5vLTEwMDE", "MTcuMDA", "MTcuOTk5OTk5OTk5OTk5OTk5OTk5OTk", "MC4w", "x"):
        answer = await operator.client.get(f"/v1/actions?cursor={forged}")
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "cursor"), forged


async def test_redis_keeps_ten_thousand_actions_and_at_most_a_node_more(store: Store) -> None:
    keys = Keys("bounded")
    stored = StoredActions(store, keys)
    for start in range(0, MOST + 3 * _NODE, _NODE):
        await stored.add(*(Action(what="pause", who="anybody", topic=f"t-{start + at}") for at in range(_NODE)))
    kept = whole(await store.command("XLEN", keys.actions))
    assert MOST <= kept <= MOST + _NODE
    newest = await stored.before(None, 2)
    assert [one.action.topic for one in newest] == [f"t-{MOST + 3 * _NODE - 1}", f"t-{MOST + 3 * _NODE - 2}"]
    await store.command("DEL", keys.actions)


@pytest.mark.expects_log("store.refused", at_least=0)  # once a minute at most
async def test_action_is_done_and_logged_although_redis_refuses_its_record(
    operator: Operator, guarded: list[ForkedBridge], store: Store
) -> None:
    await operator.call("PUT", body={})
    key = Keys("delay").actions
    await store.command("DEL", key)
    await store.command("SET", key, "not a stream")
    try:
        answer = await operator.call("POST", "/pause")
    finally:
        await store.command("DEL", key)
    assert answer.json()["paused"] is True
    request_id = answer.headers["x-request-id"]
    assert (await until_logged(guarded[0], "operator.action", request_id=request_id))["what"] == "pause"
    refused = await until_logged(guarded[0], "operator.unrecorded", request_id=request_id)
    assert "WRONGTYPE" in refused["reason"]
    assert (await operator.actions())["items"] == []


async def test_action_of_a_newer_bridge_is_listed(operator: Operator, store: Store) -> None:
    newer = f'{{"what":"paint","who":"anybody","topic":"{operator.topic}","color":"red"}}'
    await store.command("XADD", Keys("delay").actions, "*", "action", newer)
    (listed,) = (await operator.actions())["items"]
    assert (listed["what"], "color" in listed) == ("paint", False)
