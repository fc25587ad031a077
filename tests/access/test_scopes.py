"""Tests every operation with every scope: a refused call changes nothing and reveals nothing."""

from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

import httpx2
import pytest

from bridge.http.app import OPERATIONS
from bridge.http.guard import Guard
from bridge.http.v1.operation.operation import Operation, in_both_forms
from bridge.http.wires.camellia import wire as camellia
from tests.access.conftest import Mint
from tests.access.table import CAMELLIA_NEEDS, NEEDS, NEEDS_TOO, NOTHING, SCOPES, allowed
from tests.wires.camellia_service import StandIn

_OPERATION = "01KBQ5J0G0M8V4Q6W2E9R7T5Y3"
PLACED = [placed for operation in OPERATIONS for placed in in_both_forms(operation)]
# They show a stranger what its token may see, which is nothing.
OF_ALL_TOPICS = (
    "search",
    "list_topics",
    "list_actions",
    "list_subscriptions",
    "overview",
    "open_session",
    "look_at_session",
    "close_session",
    "list_operations",
    "look_at_operation",
    "cancel_operation",
    # One on a topic of others is not there for a stranger.
    "list_schedules",
    "look_at_schedule",
    "next_ticks",
    "remove_schedule",
    "pause_schedule",
    "resume_schedule",
    "trigger_schedule",
    "backfill_schedule",
)
CAMELLIA_FORM = {
    "topic": "{topic}",
    "msgId": "o-1",
    "msg": "abc",
    "delayMillis": "1000",
    "longPollingTimeoutMillis": "1",
}


def need_of(operation: Operation) -> str:
    return NEEDS[operation.name.removesuffix("_in_namespace")]


async def call(
    client: httpx2.AsyncClient, operation: Operation, namespace: str, headers: dict[str, str]
) -> httpx2.Response:
    """Calls the operation for the topic `orders` of the namespace and the message `o-1`. A pull does not wait."""
    path = operation.path.format(
        topic=f"{namespace}%2Forders",
        namespace=namespace,
        name="orders",
        id="o-1",
        operation_id=_OPERATION,
        schedule=f"{namespace}.nightly",
    )
    body = dict(next(iter(operation.examples.values()), {})) | ({"wait": 0} if "pull" in operation.name else {})
    if "topic" in body:
        body["topic"] = f"{namespace}/orders"
    if "topics" in body:
        body["topics"] = [f"{namespace}/orders"]
    return await client.request(operation.method, path, json=body if operation.takes else None, headers=headers)


async def call_camellia(
    client: httpx2.AsyncClient, where: str, namespace: str, headers: dict[str, str]
) -> httpx2.Response:
    method, _, path = where.partition(" ")
    form = {name: value.format(topic=f"{namespace}/orders") for name, value in CAMELLIA_FORM.items()}
    if method == "GET":
        return await client.get(path, params={"topic": form["topic"]}, headers=headers)
    return await client.post(path, data=form, headers=headers)


def test_every_operation_is_in_the_table() -> None:
    assert {operation.name for operation in OPERATIONS} == NEEDS.keys()


def test_every_camellia_path_is_in_the_table() -> None:
    paths = {str(getattr(route, "path", "")) for route in camellia.router(StandIn().service, Guard(None)).routes}
    assert paths == {where.partition(" ")[2] for where in CAMELLIA_NEEDS}


@pytest.fixture
async def namespace(client: httpx2.AsyncClient, mint: Mint) -> str:
    """A namespace whose topic `orders` has a waiting message `o-1`."""
    namespace = f"n-{uuid4().hex[:12]}"
    path = f"/v1/namespaces/{namespace}/topics/orders/messages"
    owner = await mint.make("send", namespaces=[namespace])
    sent = await client.post(path, json={"id": "o-1", "body": 1, "delay": "1h"}, headers=owner)
    assert sent.status_code == 201, sent.text
    return namespace


async def state_of(client: httpx2.AsyncClient, namespace: str, headers: dict[str, str]) -> Any:
    topic = f"/v1/topics/{namespace}%2Forders"
    answers = [await client.get(topic + rest, headers=headers) for rest in ("", "/messages", "/messages/o-1", "/dead")]
    assert [answer.status_code for answer in answers] == [200] * 4
    return [answer.json() for answer in answers]


@pytest.mark.parametrize("scope", SCOPES)
async def test_each_scope_allows_the_operations_of_the_table(
    client: httpx2.AsyncClient, mint: Mint, namespace: str, scope: str
) -> None:
    everything = await mint.make(*SCOPES)
    before = await state_of(client, namespace, everything)
    own, everywhere_else = await mint.make(scope, namespaces=[namespace]), await mint.make(scope)
    refused = [operation for operation in PLACED if not allowed(need_of(operation), scope)]
    for operation in refused:
        answer = await call(client, operation, namespace, own)
        assert answer.status_code == 403, (operation.name, answer.text)
        assert answer.json()["scope"] == need_of(operation)
        assert answer.json()["type"] == "urn:problem-type:delaybridge:insufficient-scope"
    assert await state_of(client, namespace, everything) == before
    for operation in PLACED:
        if operation not in refused:
            token = everywhere_else if operation.need is not None and operation.need.every_topic else own
            answer = await call(client, operation, namespace, token)
            if operation.name in NEEDS_TOO:
                assert (answer.status_code, answer.json()["scope"]) == (403, NEEDS_TOO[operation.name])
                continue
            assert answer.status_code not in {401, 403, 429, 500}, (operation.name, answer.text)


# A camellia that is offline answers its health with 500.
@pytest.mark.expects_log("http.500", at_least=0, at_most=2)
@pytest.mark.parametrize("scope", SCOPES)
async def test_each_scope_allows_the_camellia_calls_of_the_table(
    client: httpx2.AsyncClient, mint: Mint, namespace: str, scope: str
) -> None:
    everything = await mint.make(*SCOPES)
    before = await state_of(client, namespace, everything)
    own, everywhere_else = await mint.make(scope, namespaces=[namespace]), await mint.make(scope)
    refused = [where for where, need in CAMELLIA_NEEDS.items() if not allowed(need, scope)]
    for where in refused:
        answer = await call_camellia(client, where, namespace, own)
        assert answer.status_code == 403, (where, answer.text)
        assert f'scope="{CAMELLIA_NEEDS[where]}"' in answer.headers["www-authenticate"]
    assert await state_of(client, namespace, everything) == before
    for where in CAMELLIA_NEEDS.keys() - set(refused):
        token = everywhere_else if where.endswith("line") else own
        answer = await call_camellia(client, where, namespace, token)
        # The calls `online` and `offline` come in no fixed order, so health may answer 500.
        assert answer.status_code == 200 or "/health/" in where, (where, answer.text)
        assert answer.status_code in {200, 500}


@pytest.mark.parametrize("needs", [NEEDS, CAMELLIA_NEEDS], ids=["v1", "camellia"])
async def test_call_without_a_valid_token_changes_and_reveals_nothing(
    client: httpx2.AsyncClient, mint: Mint, namespace: str, needs: dict[str, str]
) -> None:
    everything = await mint.make(*SCOPES)
    before = await state_of(client, namespace, everything)
    stranger = await mint.make(*SCOPES, namespaces=["elsewhere"], bare_topics=True)
    for headers in ({}, stranger):
        of_each_topic = []
        for there in (namespace, "nowhere"):
            if needs is NEEDS:
                asked = [one for one in PLACED if need_of(one) != NOTHING and one.name not in OF_ALL_TOPICS]
                answers = [await call(client, one, there, headers) for one in asked]
            else:
                monitors = ("getTopicInfoList", "getMonitorData", "getMonitorString")
                wheres = [one for one, need in CAMELLIA_NEEDS.items() if need != NOTHING and not one.endswith(monitors)]
                answers = [await call_camellia(client, one, there, headers) for one in wheres]
            assert {answer.status_code for answer in answers} == {403 if headers else 401}
            shown = [answer.json() for answer in answers]
            of_each_topic.append([{name: one[name] for name in one if name != "request_id"} for one in shown])
        # The answers are the same whether or not the topic exists.
        assert of_each_topic[0] == of_each_topic[1]
    assert await state_of(client, namespace, everything) == before


async def test_public_paths_are_answered_without_a_token(client: httpx2.AsyncClient) -> None:
    files = re.findall(r'(?:href|src)="([^"]+)"', (await client.get("/docs")).text)
    assert len(files) == 3
    paths = ("/health/live", "/health/ready", "/openapi.json", "/docs", "/console", "/camellia/health/check")
    for path in (*paths, *(f"/{file}" for file in files)):
        assert (await client.get(path)).status_code == 200, path


async def test_schedules_of_other_topics_are_not_there(client: httpx2.AsyncClient, mint: Mint, namespace: str) -> None:
    path = f"/v1/schedules/{namespace}.nightly"
    wanted = {"cron": "0 3 1 1 *", "topic": f"{namespace}/orders", "message": {"body": 1}}
    own = await mint.make("admin", namespaces=[namespace])
    sender = await mint.make("admin", "send", namespaces=[namespace])
    stranger = await mint.make(*SCOPES, namespaces=["elsewhere"])
    assert (await client.put(path, json=wanted, headers=own)).json()["scope"] == "send"
    assert (await client.put(path, json=wanted, headers=sender)).status_code == 201
    assert (await client.put(path, json=wanted | {"topic": "elsewhere/orders"}, headers=stranger)).status_code == 403
    assert (await client.get("/v1/topics", headers=stranger)).json()["topics"] == []
    for method, rest in (("GET", ""), ("GET", "/next"), ("DELETE", ""), ("POST", "/pause"), ("POST", "/trigger")):
        assert (await client.request(method, path + rest, headers=stranger)).status_code == 404
    assert (await client.post(f"{path}/trigger", headers=own)).json()["scope"] == "send"
    names = [
        [one["name"] for one in (await client.get("/v1/schedules?limit=1000", headers=token)).json()["items"]]
        for token in (sender, stranger)
    ]
    assert names == [[f"{namespace}.nightly"], []]
    assert (await client.get(path, headers=own)).json()["sent"] == 0
    assert (await client.delete(path, headers=own)).status_code == 200


async def test_lists_show_only_topics_of_the_token(client: httpx2.AsyncClient, mint: Mint, namespace: str) -> None:
    own, stranger = await mint.make("look", namespaces=[namespace]), await mint.make("look", namespaces=["elsewhere"])
    for headers, seen in ((own, [f"{namespace}/orders"]), (stranger, [])):
        listed = (await client.get("/v1/topics", headers=headers)).json()["topics"]
        assert [topic["topic"] for topic in listed] == seen
        found = (await client.get(f"/v1/messages?topic={namespace}*", headers=headers)).json()["items"]
        assert [message["topic"] for message in found] == seen
        named = await client.get(f"/v1/messages?topic={namespace}/orders", headers=headers)
        assert named.status_code == (200 if seen else 403)
        listed = (await client.get("/camellia/delayQueue/getTopicInfoList", headers=headers)).json()["data"]
        assert [topic["topic"] for topic in listed] == seen
        text = (await client.get("/camellia/delayQueue/getMonitorString", headers=headers)).text
        assert (namespace in text) == bool(seen)


async def test_each_of_several_topics_is_checked(client: httpx2.AsyncClient, mint: Mint, namespace: str) -> None:
    own = await mint.make("consume", namespaces=[namespace])
    answer = await client.post("/v1/pull", json={"topics": [f"{namespace}/a", "b"]}, headers=own)
    assert answer.status_code == 403
    assert answer.json()["detail"] == "this token may not use this topic"
    assert (await client.post("/v1/pull", json={"topics": [f"{namespace}/orders"]}, headers=own)).status_code == 200
