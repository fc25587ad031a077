"""Tests the commands on a RabbitMQ without the plugin, of each supported version."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from bridge.local.rabbitmq import RabbitNode
from tests.migrate.conftest import NAMES, Site
from tests.shared_servers import delete_vhost, make_vhost


@pytest.fixture
def plain(rabbit: RabbitNode, tmp_path: Path) -> Iterator[Site]:
    """A virtual host with an exchange that was of the plugin, and has lost its ingress."""
    vhost = f"plain-{uuid4().hex[:8]}"
    make_vhost(rabbit, vhost)
    site = Site(node=rabbit, vhost=vhost, file=tmp_path / "kept.json")
    site.request("PUT", f"queues/{{}}/{NAMES.ingress}", {"durable": True})
    definition = {"type": "topic", "durable": True, "arguments": {"x-delayed-type": "topic"}}
    site.request("PUT", "exchanges/{}/orders", definition)
    yield site
    delete_vhost(rabbit, vhost)


async def test_new_environment_is_prepared_for_clients_behind_the_door(plain: Site) -> None:
    made = ["bills (topic)", "delay.in.bills"]
    for _ in range(2):  # the second changes nothing
        assert await plain.json("prepare", "bills", "--type", "topic") == {"exchanges": made}
        rows = {row["exchange"]: row for row in (await plain.json("status"))["exchanges"]}
        assert (rows["bills"]["type"], rows["bills"]["stage"]) == ("topic", "replaced")
    async with plain.channel() as channel:
        await channel.declare_exchange("bills", "x-delayed-message", passive=True)  # what the door passes on
    assert "is of type topic, not fanout" in await plain.migrate("prepare", "bills", "--type", "fanout", code=1)
    plain.request("DELETE", f"queues/{{}}/{NAMES.ingress}")
    assert "run a bridge there first" in await plain.migrate("prepare", "other", "--type", "topic", code=1)


async def test_ingress_is_declared_again_and_the_way_back_waits_for_the_plugin(plain: Site) -> None:
    before = plain.export()
    assert "replaced, but without its ingress: run apply" in await plain.migrate("status")
    await plain.migrate("apply")
    found = await plain.json("status")
    assert (found["exchanges"][0]["stage"], found["exchanges"][0]["ingress"]) == ("replaced", True)
    assert found["plugin"] == "plugin: off. RabbitMQ has no type x-delayed-message."
    applied = plain.export()
    assert await plain.json("apply") == {"done": [], "waiting": [], "gaps": [], "to_replay": None}
    assert plain.export() == applied != before
    assert "switch the plugin on" in await plain.migrate("rollback", "--publishers-back", code=5)
    assert "orders" in str(plain.export()["exchanges"])
