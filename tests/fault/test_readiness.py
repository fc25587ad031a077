"""Tests that a bridge is ready as long as a send would succeed, and says why it is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from time import monotonic
from urllib.parse import urlsplit

import httpx2
import pytest
import pytest_asyncio
from redis.asyncio import Redis

from bridge.model.errors import StoreRefused
from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.servers.pipelines import PLACES
from tests.fault.api import Api
from tests.fault.stage import Stage, started
from tests.integration.topic import Json
from tests.matrix.servers import Servers
from tests.proxy import Proxy
from tests.waiting import pause
from topology.names import Names

KNOWN_WITHIN_S = 2.0
NOWHERE = ("127.0.0.1", "1")
DECLARED_LONG_AGO_MS = 2_000
KEYS_TO_LOAD = 2_500  # of a millisecond each

State = Callable[[Redis], AbstractAsyncContextManager[None]]


@pytest_asyncio.fixture(scope="module")
async def bridge(stage: Stage) -> str:
    """The URL of a bridge whose Redis user has a password."""
    async with Redis.from_url(stage.redis.url) as redis:
        await redis.acl_setuser("bridge", enabled=True, passwords=["+SECRET"], keys=["*"], categories=["+@all"])
    url = stage.redis.url.replace("redis://", "redis://bridge:SECRET@")
    bridge = stage.bridge(redis_url=url)
    await started(bridge)
    return bridge.url


@asynccontextmanager
async def demoted(redis: Redis) -> AsyncIterator[None]:
    await redis.replicaof(*NOWHERE)
    try:
        yield
    finally:
        await redis.replicaof("NO", "ONE")


@asynccontextmanager
async def without_master(redis: Redis) -> AsyncIterator[None]:
    await redis.config_set("replica-serve-stale-data", "no")
    async with demoted(redis):
        yield
    await redis.config_set("replica-serve-stale-data", "yes")


@asynccontextmanager
async def full(redis: Redis) -> AsyncIterator[None]:
    await redis.config_set("maxmemory", "1mb")
    try:
        yield
    finally:
        await redis.config_set("maxmemory", "0")


@asynccontextmanager
async def without_replicas(redis: Redis) -> AsyncIterator[None]:
    await redis.config_set("min-replicas-to-write", "1")
    try:
        yield
    finally:
        await redis.config_set("min-replicas-to-write", "0")


@asynccontextmanager
async def barred(redis: Redis) -> AsyncIterator[None]:
    await redis.acl_setuser("bridge", enabled=True, commands=["-zadd"])
    try:
        yield
    finally:
        await redis.acl_setuser("bridge", enabled=True, commands=["+zadd"])


@asynccontextmanager
async def barred_from_scripts(redis: Redis) -> AsyncIterator[None]:
    await redis.acl_setuser("bridge", enabled=True, commands=["-evalsha"])
    try:
        yield
    finally:
        await redis.acl_setuser("bridge", enabled=True, commands=["+evalsha"])


async def until_ready(api: Api, status: int, *says: str) -> Json:
    """Asks until the answer has the status and names these texts; it must come within two seconds."""
    began_s = monotonic()
    while True:
        answer = await api.call("GET", "/health/ready")
        if answer.status_code == status and all(text in answer.text for text in says):
            health: Json = answer.json()
            return health
        assert monotonic() - began_s < KNOWN_WITHIN_S + 5, answer.text
        await pause()


@pytest.mark.parametrize(
    ("state", "says"),
    [
        (demoted, "is a replica, which takes no writes (READONLY"),
        (without_master, "is a replica that has lost its master (MASTERDOWN"),
        (full, "its memory is full (OOM"),
        (without_replicas, "too few replicas (NOREPLICAS"),
        (barred, "does not permit the user what the bridge needs: check its ACL (ERR"),
        (barred_from_scripts, "does not permit the user what the bridge needs: check its ACL (NOPERM"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
async def test_bridge_is_ready_only_while_redis_takes_a_write(
    stage: Stage, bridge: str, http: httpx2.AsyncClient, state: State, says: str
) -> None:
    api = Api(http, bridge)
    await api.insist("GET", "/health/ready")
    async with Redis.from_url(stage.redis.url) as redis, asyncio.timeout(30):
        async with state(redis):
            health = await until_ready(api, 503, says)
            assert says in health["parts"]["store"]
            sent = await api.send("orders", "refused")
            assert sent.status_code == 503, sent.text
            assert sent.json()["detail"].startswith(f"Redis at 127.0.0.1:{stage.redis.port} ")
        began_s = monotonic()
        await until_ready(api, 200)
        assert monotonic() - began_s < KNOWN_WITHIN_S
        assert await redis.keys("*probe*/set") == []


async def test_bridge_is_ready_again_once_redis_has_loaded_its_data(
    stage: Stage, bridge: str, http: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    api, node = Api(http, bridge), stage.redis
    await api.insist("GET", "/health/ready")
    async with Redis.from_url(node.url) as redis:
        await redis.mset({f"filling/{number}": "" for number in range(KEYS_TO_LOAD)})
        await redis.bgrewriteaof()  # so that Redis loads keys, not commands
        while (await redis.info("persistence"))["aof_rewrite_in_progress"]:
            await pause()
    slow = "key-load-delay 1000\nloading-process-events-interval-bytes 1024\nuser bridge on >SECRET ~* &* +@all\n"
    monkeypatch.setattr(node, "configuration", lambda: type(node).configuration(node) + slow)
    await asyncio.to_thread(node.kill)
    node.launch()
    async with asyncio.timeout(30):
        await until_ready(api, 503, "is loading its data (LOADING")
        sent = await api.send("orders", "while-loading")
        assert sent.status_code == 503, sent.text
        assert sent.json()["detail"].startswith(f"Redis at 127.0.0.1:{node.port} is loading its data (LOADING")
        await asyncio.to_thread(node.wait_until_ready)
        began_s = monotonic()
        await until_ready(api, 200)
        assert monotonic() - began_s < KNOWN_WITHIN_S
        assert (await api.send("orders", "loaded")).status_code == 201


async def test_one_refusal_of_a_demoted_redis_renews_every_connection(local_dir: Path, servers: Servers) -> None:
    former, successor = (servers.redis_node(local_dir / f"redis-{name}") for name in ("former", "successor"))
    await started(former, successor)
    try:
        async with (
            Proxy(former.url) as proxy,
            Redis.from_url(former.url) as old,
            Redis.from_url(successor.url) as new,
        ):
            store = Store(proxy.url, timeout_ms=5_000, keys=Keys("delay"))
            await asyncio.gather(*(store.command("ECHO", "1") for _ in range(PLACES)))
            await old.set("holder", "former")
            await new.set("holder", "successor")
            await old.replicaof(*NOWHERE)
            proxy.lead_to(successor.url)

            with pytest.raises(StoreRefused, match="is a replica"):
                await store.probe()

            found = await asyncio.gather(*(store.command("GET", "holder") for _ in range(PLACES)))
            assert found == [b"successor"] * PLACES
            assert await store.probe() == []
            await store.close()
    finally:
        await asyncio.to_thread(former.kill)
        await asyncio.to_thread(successor.kill)


@pytest.mark.parametrize("given", ["redis://127.0.0.1", "redis://:wrong@127.0.0.1", "redis://nobody:SECRET@127.0.0.1"])
async def test_wrong_password_is_named_and_not_taken_for_silence(stage: Stage, given: str) -> None:
    async with Redis.from_url(stage.redis.url) as redis:
        await redis.config_set("requirepass", "SECRET")
    store = Store(f"{given}:{stage.redis.port}/0", timeout_ms=5_000)
    try:
        with pytest.raises(StoreRefused, match="refuses the login: check the user and the password"):
            await store.learn_clock()
    finally:
        await store.close()
        async with Redis.from_url(f"redis://:SECRET@127.0.0.1:{stage.redis.port}/0") as redis:
            await redis.config_set("requirepass", "")


async def test_queue_that_does_not_confirm_is_a_finding_while_others_do(
    stage: Stage, bridge: str, http: httpx2.AsyncClient
) -> None:
    api = Api(http, bridge)
    await api.insist("GET", "/health/ready")
    await api.sent("others", "one")
    first, second = Names().probes
    await tell(stage, "suspend", first)
    try:
        health = await until_ready(api, 200, "last minute: delay.probe.0")
        assert health["status"] == "degraded"
        assert (await api.send("others", "two")).status_code == 201
        for _ in range(10):
            assert (await api.call("GET", "/health/ready")).status_code == 200
        await tell(stage, "suspend", second)
        health = await until_ready(api, 503)
        assert "RabbitMQ did not answer" in health["parts"]["broker"]
    finally:
        await tell(stage, "resume", first, second)
    await until_ready(api, 200, '"status":"ok"')


@pytest.mark.parametrize(("queue", "delay_ms"), [("ready.hung", 0), (Names().slot("seconds", 7), 7_500)])
async def test_queue_that_hangs_is_a_finding_though_no_other_queue_does(
    stage: Stage, bridge: str, http: httpx2.AsyncClient, queue: str, delay_ms: int
) -> None:
    api = Api(http, bridge)
    await api.sent("others", "one")
    # As the message comes, its topic's queues are no longer young.
    await api.sent("hung", f"first-{delay_ms}", delay=DECLARED_LONG_AGO_MS)
    while not await api.pull("hung", wait_ms=5_000):
        pass
    await tell(stage, "suspend", queue)
    try:
        async with asyncio.TaskGroup() as sends:
            refused = sends.create_task(api.send("hung", f"refused-{delay_ms}", delay=delay_ms))
            health = await until_ready(api, 200, f"last minute: {queue} (")
        assert refused.result().status_code == 503
        assert health["status"] == "degraded"
        assert 'delaybridge_findings{severity="warning"} 0.0' not in (await api.call("GET", "/metrics")).text
        assert (await api.send("others", f"while {queue} hangs", delay=500)).status_code == 201
    finally:
        await tell(stage, "resume", queue)
    await api.sent("hung", f"accepted-{delay_ms}", delay=delay_ms)
    await until_ready(api, 200, '"status":"ok"')


async def tell(stage: Stage, verb: str, *queues: str) -> None:
    """Suspends or resumes the leaders of queues."""
    vhost = urlsplit(stage.rabbit.amqp_url).path[1:]
    leaders = ", ".join(f"'{vhost}_{queue}'" for queue in queues)
    await asyncio.to_thread(stage.rabbit.ctl, "eval", f"[sys:{verb}(Queue) || Queue <- [{leaders}]].")
