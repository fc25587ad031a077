"""Tests the life of a token: creation, replacement, expiry, revocation, and an outage of its store."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2
import orjson

from bridge.access.token import Token
from bridge.local.ports import free_ports
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from bridge.store.client import Store
from bridge.store.replies import binary
from tests.access.conftest import Mint, id_of
from tests.forked_bridge import PATIENT, ForkedBridge
from tests.integration.own import own_bridge
from tests.waiting import pause

MESSAGES = "/v1/topics/orders/messages"
SEND = {"body": 1, "delay": "1h"}
_NAMESPACES = 50
_CLIENTS = 20


async def status(client: httpx2.AsyncClient, header: dict[str, str]) -> int:
    return (await client.get("/v1/topics", headers=header)).status_code


async def until(client: httpx2.AsyncClient, header: dict[str, str], wanted: int) -> None:
    """Asks until the answer has this status. The test's time limit ends the wait."""
    while (found := await status(client, header)) != wanted:
        assert found in {200, 401, 503}
        await pause()


async def test_new_token_is_valid_at_once_in_every_process(clients: list[httpx2.AsyncClient], mint: Mint) -> None:
    for _ in range(3):
        header = await mint.make("look")
        assert [await status(client, header) for client in clients] == [200, 200]


async def test_tokens_of_one_name_are_both_valid_until_one_is_revoked(
    clients: list[httpx2.AsyncClient], mint: Mint
) -> None:
    old, new = await mint.make("look"), await mint.make("look")
    for client in clients:
        assert [await status(client, header) for header in (old, new)] == [200, 200]
    assert await mint.stored.remove(id_of(old))
    for client in clients:
        await until(client, old, 401)
        assert await status(client, new) == 200
    assert not await mint.stored.remove(id_of(old))


async def test_token_expires_at_its_time(client: httpx2.AsyncClient, mint: Mint) -> None:
    header = await mint.make("look", expires_ms=int(time.time() * 1_000) + 3_000)
    assert await status(client, header) == 200
    await until(client, header, 401)


async def test_guessed_tokens_cause_few_redis_lookups(client: httpx2.AsyncClient, mint: Mint, store: Store) -> None:
    async def asked() -> int:
        """Returns how often all bridges together have asked Redis for a field of a hash."""
        text = binary(await store.command("INFO", "commandstats"))
        found = [line for line in text.splitlines() if line.startswith(b"cmdstat_hget:")]
        return int(found[0].partition(b"calls=")[2].partition(b",")[0])

    await mint.make("look")
    began_s, before = time.monotonic(), await asked()
    guesses = [{"Authorization": f"Bearer dbt_{number:012x}_{'0' * 64}"} for number in range(400)]
    answers = await asyncio.gather(*(client.get(MESSAGES, headers=guess) for guess in guesses))
    assert {answer.status_code for answer in answers} == {401}
    # The process asks at most 20 times a second for guesses. Each of the two processes also reads once a second.
    assert await asked() - before <= 2 + 24 * (time.monotonic() - began_s)


async def test_rate_limits_are_exact_across_processes(clients: list[httpx2.AsyncClient], mint: Mint) -> None:
    header = await mint.make("send", "consume", "look", sends_per_s=5, pulls_per_s=3)
    topic = f"/v1/topics/t-{uuid4().hex[:12]}"
    for path, body, per_s, admitted in (("/messages", SEND, 5, 201), ("/pull", {}, 3, 200)):
        began_s = time.monotonic()
        answers = await asyncio.gather(
            *(clients[at % 2].post(topic + path, json=body, headers=header) for at in range(60))
        )
        took_s = time.monotonic() - began_s
        statuses = [answer.status_code for answer in answers]
        assert set(statuses) <= {admitted, 429}
        assert per_s <= statuses.count(admitted) <= per_s + took_s * per_s
    listed = (await clients[0].get(f"{topic}/messages", headers=header)).json()["items"]
    assert 5 <= len(listed) < 60


async def test_no_message_crosses_namespaces(clients: list[httpx2.AsyncClient], mint: Mint) -> None:
    run = uuid4().hex[:8]
    names = [f"n{number}-{run}" for number in range(_NAMESPACES)]
    headers = [await mint.make("send", "consume", namespaces=[name]) for name in names]
    turn = asyncio.Semaphore(_CLIENTS)

    async def use(number: int) -> list[Any]:
        """Sends to its own and the next namespace and pulls from both. Returns the bodies it got."""
        client, header = clients[number % 2], headers[number]
        own, other = (f"/v1/namespaces/{names[at % _NAMESPACES]}/topics/t" for at in (number, number + 1))
        async with turn:
            refused = [
                await client.post(f"{other}/messages", json={"body": "crossed"}, headers=header),
                await client.post(f"{other}/pull", json={"wait": "60s"}, headers=header),
            ]
            assert [answer.status_code for answer in refused] == [403, 403]
            for part in range(2):
                sent = await client.post(f"{own}/messages", json={"body": [number, part]}, headers=header)
                assert sent.status_code == 201, sent.text
            got: list[Any] = []
            while len(got) < 2:
                pulled = await client.post(f"{own}/pull", json={"wait": "60s", "max": 10}, headers=header)
                got += [message["body"] for message in pulled.json()["messages"]]
            return got

    everything = await asyncio.gather(*map(use, range(_NAMESPACES)))
    assert [sorted(got) for got in everything] == [[[number, 0], [number, 1]] for number in range(_NAMESPACES)]


async def test_known_tokens_stay_valid_while_redis_is_away(local_dir: Path, rabbit: RabbitNode) -> None:
    with RedisNode(local_dir / "redis-of-tokens") as redis_node:
        store = Store(redis_node.url, timeout_ms=5_000)
        mint = Mint(store)
        known, other = await mint.make("look"), await mint.make("look")
        await store.close()
        settings = {"BRIDGE_ACCESS": "tokens", "BRIDGE_REDIS_PREFIX": "delay"}
        async with own_bridge(rabbit, redis_node.url, local_dir, **settings) as own:
            client = own.topic.client
            assert await status(client, known) == 200
            redis_node.kill()
            # A missing scope is still refused. An unknown token cannot be checked without Redis.
            assert (await client.post(MESSAGES, json=SEND, headers=known)).status_code == 403
            unknown = {"Authorization": f"Bearer dbt_{'0' * 12}_{'0' * 64}"}
            answer = await client.post(MESSAGES, json=SEND, headers=unknown)
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            redis_node.start()
            await until(client, known, 200)
            await until(client, other, 200)
            await until(client, unknown, 401)


async def test_tokens_file_is_followed_when_it_changes(
    local_dir: Path, rabbit: RabbitNode, redis_node: RedisNode, mint: Mint
) -> None:
    one, two = await mint.make("look"), await mint.make("look")
    entries = {
        id_of(header): Token.model_validate_json(written).model_dump(mode="json")
        for header in (one, two)
        for written in await mint.stored.all()
        if id_of(header).encode() in written
    }
    folder = local_dir / "file"
    folder.mkdir()
    file = folder / "tokens.json"

    def write(*headers: dict[str, str]) -> None:
        (folder / "new.json").write_bytes(orjson.dumps([entries[id_of(header)] for header in headers]))
        os.replace(folder / "new.json", file)

    write(one)
    settings = {
        "BRIDGE_AMQP_URL": rabbit.amqp_url,
        "BRIDGE_REDIS_URL": redis_node.url,
        "BRIDGE_ACCESS": "tokens",
        "BRIDGE_TOKENS_FILE": str(file),
        **PATIENT,
    }
    process = ForkedBridge(folder / "bridge.log", free_ports(1)[0], settings)
    await asyncio.to_thread(process.start)
    try:
        async with httpx2.AsyncClient(base_url=process.url, timeout=60) as client:
            assert [await status(client, header) for header in (one, two)] == [200, 401]
            write(two)
            await until(client, one, 401)
            assert await status(client, two) == 200
            file.write_text("[{}]")
            while (ready := await client.get("/health/ready")).status_code == 200:
                await pause()
            assert "BRIDGE_TOKENS_FILE" in ready.json()["parts"]["access"]
            assert [await status(client, header) for header in (two, one)] == [200, 503]
            write(one)
            await until(client, two, 401)
            assert await status(client, one) == 200
    finally:
        await asyncio.to_thread(process.stop)
