"""Tests an upgrade: a bridge of an earlier commit and one of this checkout work on one topology, then the earlier one
stops. `make test-upgrade` runs this."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from itertools import cycle
from pathlib import Path
from random import Random
from uuid import uuid4

import httpx2
import pytest
import pytest_asyncio

from bridge.local.ports import free_ports
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.forked_bridge import PATIENT, ForkedBridge
from tests.integration.topic import Topic, due_ms
from tests.shared_servers import vhost_url
from tests.tools.upgrade.earlier import EarlierBridge, origin, unpacked
from tests.vhosts import give_back_vhost, take_vhost

MESSAGES = 200


class Both:
    """The earlier and the present bridge, and topics that each test has to itself."""

    def __init__(self, earlier: EarlierBridge, present: ForkedBridge, clients: Sequence[httpx2.AsyncClient]) -> None:
        self.earlier = earlier
        self.present = present
        self._clients = clients

    def topic(self) -> tuple[Topic, Topic]:
        """A new topic, through the earlier bridge and through the present one."""
        old, new = self._clients
        topic = Topic(old, f"upgraded-{uuid4().hex[:12]}")
        return topic, topic.through(new)


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked(tmp_path_factory.mktemp("upgrade") / "earlier")


@pytest_asyncio.fixture(scope="module")
async def both(code: Path, rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path) -> AsyncIterator[Both]:
    vhost = await asyncio.to_thread(take_vhost, rabbit)
    settings = {
        "BRIDGE_AMQP_URL": vhost_url(rabbit, vhost),
        "BRIDGE_REDIS_URL": redis_node.url,
        "BRIDGE_REDIS_PREFIX": f"upgrade-{uuid4().hex[:12]}",
        **PATIENT,
    }
    ports = free_ports(2)
    earlier = EarlierBridge(local_dir / "earlier" / "bridge.log", ports[0], settings)
    earlier.code = code
    # The earlier bridge does not know the setting, and the default is what an upgrade brings.
    further = {"BRIDGE_BACKOFF_FIRST": "1s"}
    present = ForkedBridge(local_dir / "present" / "bridge.log", ports[1], settings | further)
    await asyncio.to_thread(earlier.start)  # it declares the wheel, and the present one finds it
    await asyncio.to_thread(present.start)
    async with (
        httpx2.AsyncClient(base_url=earlier.url, timeout=90) as old,
        httpx2.AsyncClient(base_url=present.url, timeout=90) as new,
    ):
        yield Both(earlier, present, (old, new))
    for bridge in (earlier, present):
        await asyncio.to_thread(bridge.kill)
    await asyncio.to_thread(give_back_vhost, rabbit, vhost)


def test_earlier_bridge_runs_the_earlier_code(code: Path) -> None:
    assert origin(code).is_relative_to(code)


async def test_lease_of_one_build_is_settled_by_the_other(both: Both) -> None:
    old, new = both.topic()
    for giver, settler in ((old, new), (new, old)):
        acked, nacked, extended, left = (f"{kind}-{giver is old}" for kind in ("acked", "nacked", "extended", "left"))
        await giver.send(id=acked, delay="200ms")
        await settler.ack(await giver.pull_one())
        assert await giver.state(acked) == "acked"

        await giver.send(id=nacked)
        await settler.nack(await giver.pull_one(), delay="100ms")
        again = await settler.pull_one()
        assert (again["id"], again["attempts"]) == (nacked, 2)
        await giver.ack(again)

        await settler.send(id=extended)
        pulled = await giver.pull_one(lease="3s")
        await settler.extend(pulled, "60s")
        await giver.ack(pulled)

        await settler.send(id=left)
        pulled = await giver.pull_one(lease="1s")
        again = await settler.pull_one()
        assert (again["id"], again["attempts"]) == (left, 2)
        await settler.ack(pulled, expect=409)
        await giver.ack(again)


async def test_policy_that_the_earlier_build_stored_gets_the_default_back_off(both: Both) -> None:
    old, new = both.topic()
    await old.put_policy(max_retry=5, lease="1m")
    effective = (await new.info())["effective"]
    assert (effective["max_retry"], effective["lease_ms"]) == (5, 60_000)
    assert effective["backoff"] == {"first_ms": 1_000, "factor": 2.0, "max_ms": 300_000}
    assert effective["defaults"] == ["ttl_ms", "backoff"]

    await new.send(id="m-1")
    leased = await new.pull_one()
    nacked = await new.nack(leased)
    assert due_ms(nacked) >= due_ms(leased) + 1_000
    # The bridge that gets the nack decides: the earlier one knows no default.
    await new.move("m-1", delay=0)
    await old.nack(await old.pull_one())
    assert (await new.pull_one())["attempts"] == 3


async def test_message_sent_through_one_build_is_changed_through_the_other(both: Both) -> None:
    old, new = both.topic()
    for sender, changer in ((old, new), (new, old)):
        moved, deleted, dies = (f"{kind}-{sender is old}" for kind in ("moved", "deleted", "dies"))
        await sender.send(id=moved, delay="1h")
        await sender.send(id=deleted, delay="1s")
        await changer.send(id=moved, delay="1h", expect=200)
        await changer.delete(deleted)
        await changer.move(moved, delay="600ms")
        assert await sender.pull_ids(1) == [moved]
        assert await changer.state(deleted) == "deleted"
        await changer.send(id=dies, max_retry=0)
        await sender.nack(await changer.pull_one())
        await changer.until_state(dies, "dead")
        await sender.call("POST", f"/dead/{dies}/replay")
        assert await changer.pull_ids(1) == [dies]


async def test_messages_of_both_builds_arrive_once_also_after_the_earlier_one_has_stopped(
    both: Both,
) -> None:
    random = Random(1)
    old, new = both.topic()
    pulled: Counter[str] = Counter()
    results: Counter[str] = Counter()

    async def send(through: Topic, name: str, most_ms: int) -> None:
        """Sends a batch, whose messages share bundles."""
        await through.send_many(
            *({"id": f"{name}-{n}", "body": n, "delay": random.randint(0, most_ms)} for n in range(MESSAGES))
        )

    async def consume(puller: Topic, settler: Topic, count: int) -> None:
        """Pulls through one bridge and acknowledges through the other, until all consumers have `count` messages."""
        while pulled.total() < count:
            messages = await puller.pull(max=20, wait="1s", lease="60s")
            pulled.update(message["id"] for message in messages)
            if messages:
                results.update(await settler.ack_many(receipts=[message["receipt"] for message in messages]))

    names = ("old", "new", "old-late", "new-late")
    await asyncio.gather(
        *(send(through, name, 3_000 if "late" in name else 1_000) for name, through in zip(names, cycle((old, new))))
    )
    half = len(names) * MESSAGES // 2
    await asyncio.gather(*(consume(*pair, half) for pair in ((old, new), (new, old), (old, old), (new, new))))

    last = await old.pull(max=5, wait="10s", lease="60s")  # acknowledged after the bridge that leased them has gone
    both.earlier.ask_to_stop()
    await asyncio.to_thread(both.earlier.wait_until_stopped)
    assert last
    pulled.update(message["id"] for message in last)
    results.update(await new.ack_many(receipts=[message["receipt"] for message in last]))
    await consume(new, new, len(names) * MESSAGES)

    assert pulled == Counter(f"{name}-{n}" for name in names for n in range(MESSAGES))
    assert results == {"acked": len(names) * MESSAGES}
    await new.send(id="marker")
    assert await new.drain("marker") == []
    info = await new.info()
    assert {state: count for state, count in info["counts"].items() if count and state != "acked"} == {}
