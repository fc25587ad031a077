"""Tests the sessions of browsers: what opens, ends and bounds them, and who may use their cookie."""

from __future__ import annotations

import re
from uuid import uuid4

import httpx2

from bridge.store.client import Store
from bridge.store.kept.sessions import LIFE_MS, MOST, StoredSessions
from bridge.store.keys import Keys
from bridge.store.replies import whole
from tests.access.conftest import Mint, id_of

PATH = "/v1/session"
KEYS = Keys("delay")
SAME_SITE = {"Sec-Fetch-Site": "same-origin"}


async def opened(client: httpx2.AsyncClient, headers: dict[str, str]) -> dict[str, str]:
    """Opens a session. Returns the header with its cookie."""
    answer = await client.post(PATH, headers=headers)
    assert answer.status_code == 201, answer.text
    client.cookies.clear()
    match = re.match(r"delaybridge_session=([^;]+); Path=/; HttpOnly; SameSite=Strict$", answer.headers["set-cookie"])
    assert match is not None, answer.headers["set-cookie"]
    return {"Cookie": f"theme=dark; delaybridge_session={match[1]}"}


async def test_a_session_allows_what_its_token_allows(clients: list[httpx2.AsyncClient], mint: Mint) -> None:
    one, other = clients
    namespace = f"n-{uuid4().hex[:12]}"
    token = await mint.make("send", namespaces=[namespace])
    cookie = await opened(one, token)
    # Any bridge knows the session.
    seen = (await other.get(PATH, headers=cookie)).json()
    assert (seen["token_id"], seen["scopes"], seen["namespaces"]) == (id_of(token), ["send"], [namespace])
    topic = f"/v1/namespaces/{namespace}/topics/orders"
    assert (await other.post(f"{topic}/messages", json={"body": 1}, headers=cookie | SAME_SITE)).status_code == 201
    assert (await other.post(f"{topic}/pause", headers=cookie | SAME_SITE)).json()["scope"] == "admin"
    assert (await other.get("/v1/topics/elsewhere", headers=cookie)).status_code == 403


async def test_a_session_cannot_prolong_itself(client: httpx2.AsyncClient, mint: Mint) -> None:
    cookie = await opened(client, await mint.make("look"))
    again = await client.post(PATH, headers=cookie | SAME_SITE)
    assert (again.status_code, again.headers.get("set-cookie")) == (200, None)


async def test_sign_out_and_revoke_end_a_session(client: httpx2.AsyncClient, mint: Mint) -> None:
    token = await mint.make("look")
    first, second = await opened(client, token), await opened(client, token)
    closed = await client.delete(PATH, headers=first | SAME_SITE)
    assert (closed.status_code, "Max-Age=0" in closed.headers["set-cookie"]) == (200, True)
    assert (await client.get(PATH, headers=first)).status_code == 401
    assert (await client.get(PATH, headers=second)).status_code == 200
    await mint.stored.remove(id_of(token))
    while (answer := await client.get(PATH, headers=second)).status_code == 200:
        pass  # within two seconds
    assert answer.json()["type"].endswith("invalid-token")


async def test_a_token_has_at_most_twenty_sessions(client: httpx2.AsyncClient, mint: Mint, store: Store) -> None:
    token = await mint.make("look")
    cookies = [await opened(client, token) for _ in range(MOST + 1)]
    assert [(await client.get(PATH, headers=cookie)).status_code for cookie in (cookies[0], cookies[-1])] == [401, 200]
    key = KEYS.sessions(id_of(token))
    assert await store.command("ZCARD", key) == MOST
    assert 0 < whole(await store.command("PTTL", key)) <= LIFE_MS


async def test_a_session_ends_with_its_time(store: Store) -> None:
    sessions, token_id = StoredSessions(store, KEYS), uuid4().hex[:12]
    await store.learn_clock()
    now_ms = int(store.clock.now_ms())
    assert await sessions.add(token_id, "a", now_ms + 60_000) == now_ms + 60_000
    assert await sessions.add(token_id, "b", None) <= now_ms + LIFE_MS + 1_000
    assert await sessions.add(token_id, "c", now_ms - 1) == now_ms - 1
    assert [await sessions.lives(token_id, sha256) for sha256 in "abcd"] == [True, True, False, False]
    await sessions.add(token_id, "d", None)
    assert await store.command("ZSCORE", KEYS.sessions(token_id), "c") is None


async def test_only_a_page_of_the_bridge_may_use_a_session(client: httpx2.AsyncClient, mint: Mint) -> None:
    cookie = await opened(client, await mint.make("send"))
    path = f"/v1/topics/t-{uuid4().hex[:8]}/messages"
    own = str(client.base_url).rstrip("/")
    foreign: list[dict[str, str]] = [
        {},
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": f"{own}0"},  # another port
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "cross-site", "Origin": own},
        {"Sec-Fetch-Site": "none"},
    ]
    for headers in foreign:
        refused = await client.post(path, json={"body": 1}, headers=cookie | headers)
        assert (refused.status_code, refused.json()["type"][-12:]) == (403, "foreign-site"), headers
    assert (await client.get(PATH, headers=cookie | {"Sec-Fetch-Site": "cross-site"})).status_code == 403
    for headers in (SAME_SITE, {"Origin": own}):
        assert (await client.post(path, json={"body": 1}, headers=cookie | headers)).status_code == 201, headers
    assert (await client.get(PATH, headers=cookie | {"Sec-Fetch-Site": "none"})).status_code == 200


async def test_a_session_counts_for_the_api_alone(client: httpx2.AsyncClient, mint: Mint) -> None:
    cookie = await opened(client, await mint.make("look", "admin"))
    answer = await client.get("/camellia/delayQueue/getTopicInfoList", headers=cookie | SAME_SITE)
    assert answer.status_code == 401


async def test_the_cookie_is_secure_behind_https(client: httpx2.AsyncClient, mint: Mint) -> None:
    token = await mint.make("look")
    answer = await client.post(PATH, headers=token | {"Origin": "https://bridge.example"})
    client.cookies.clear()
    assert answer.headers["set-cookie"].endswith("; SameSite=Strict; Secure")
    assert id_of(token) in answer.headers["set-cookie"]
    assert token["Authorization"].rpartition("_")[2] not in answer.headers["set-cookie"]
