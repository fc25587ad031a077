"""Tests a migration on a RabbitMQ with a stand-in for the plugin: what each command changes, and what it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from aio_pika import Message

from tests.migrate.conftest import Site, declare_old
from tests.migrate.plugin import Plugin
from tests.waiting import pause
from topology.migration.carry_out import Migration
from topology.migration.facts import DELAYED
from topology.migration.kept import KeptFile

LATER_MS = 8_000  # longer than a busy machine takes to plan and to apply

LATE = {
    "properties": {"headers": {"x-delay": 3_600_000}},
    "routing_key": "order.1",
    "payload": "late",
    "payload_encoding": "string",
}

pytestmark = pytest.mark.timeout(300)


async def held(site: Site, count: int) -> None:
    """Waits until the plugin holds so many messages."""
    while site.request("GET", "exchanges/{}/orders")["messages_delayed"] != count:
        await pause()


async def stages(site: Site) -> dict[str, str]:
    return {row["exchange"]: row["stage"] for row in (await site.json("status"))["exchanges"]}


async def test_plan_changes_nothing_and_rollback_restores_the_definitions(site: Site) -> None:
    async with site.channel() as channel:
        await declare_old(channel)
        await declare_old(channel, "mails", "direct")
    before = site.export()
    printed = await site.migrate("plan")
    assert "1. Declare the exchange delay.in.orders, and bind it to the queue delay.in." in printed
    assert "Messages come from the exchange orders-feeder, by a binding: their x-delay counts no more." in printed
    assert "4. Delete orders, and declare it as topic with its 3 bindings." in printed
    assert "plugin: on, and needed." in printed
    assert site.export() == before
    assert not site.file.exists()

    assert "publishers go first" in (await site.migrate("apply", code=5))
    assert await stages(site) == {"orders": "prepared", "mails": "prepared"}
    prepared = site.export()
    assert before["exchanges"] == [row for row in prepared["exchanges"] if '"delay.in.' not in row]

    await site.migrate("apply", "--publishers-moved")
    applied = site.export()
    assert await stages(site) == {"orders": "replaced", "mails": "replaced"}
    assert applied["bindings"] == prepared["bindings"]
    kinds = {row["name"]: row["type"] for row in map(json.loads, applied["exchanges"])}
    assert (kinds["orders"], kinds["mails"], kinds["delay.in.orders"]) == ("topic", "direct", "topic")
    assert "no longer needed" in (await site.migrate("status"))

    assert (await site.json("apply", "--publishers-moved")) == {
        "done": [],
        "waiting": [],
        "gaps": [],
        "to_replay": None,
    }
    assert site.export() == applied

    assert "say --publishers-back" in (await site.migrate("rollback", code=5))
    await site.migrate("rollback", "--publishers-back")
    assert site.export() == before
    assert (await site.json("rollback", "--publishers-back")) == {
        "done": [],
        "waiting": [],
        "gaps": [],
        "to_replay": None,
    }
    assert site.export() == before


async def test_binding_of_a_consumer_that_starts_meanwhile_is_kept(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async with site.channel() as channel:
        await declare_old(channel)
    before = site.export()["bindings"]
    site.request("PUT", "queues/{}/late", {"durable": True})
    begin = KeptFile.begin

    def binding(*arguments: Any) -> None:
        site.request("POST", "bindings/{}/e/orders/q/late", {"routing_key": "late.#"})
        begin(*arguments)
        monkeypatch.undo()

    monkeypatch.setattr(KeptFile, "begin", binding)
    await site.migrate("apply", "--publishers-moved")
    (late,) = {*site.export()["bindings"]} - {*before, *(row for row in site.export()["bindings"] if "delay.in" in row)}
    assert json.loads(late)["destination"] == "late"


async def test_messages_in_the_plugin_stop_the_replacement(site: Site) -> None:
    async with site.channel() as channel:
        await declare_old(channel)
        exchange = await channel.get_exchange("orders")
        await exchange.publish(Message(b"waits", headers={"x-delay": 3_600_000}), "order.1", mandatory=False)
        await held(site, 1)
        output = await site.migrate("apply", "--publishers-moved", code=5)
        assert "1 messages wait in the plugin" in output
        assert await stages(site) == {"orders": "prepared"}
        assert (await site.json("status"))["exchanges"][0]["messages_delayed"] == 1


async def test_replaced_exchange_delivers_what_the_plugin_held(site: Site) -> None:
    async with site.channel() as channel:
        await declare_old(channel)
        exchange = await channel.get_exchange("orders")
        quorum = await channel.declare_queue("orders-quorum", durable=True, arguments={"x-queue-type": "quorum"})
        await quorum.bind(exchange, "order.#")
        for number in range(20):
            await exchange.publish(Message(b"%d" % number, headers={"x-delay": LATER_MS}), "order.1", mandatory=False)
        await held(site, 20)
        await site.migrate("apply", "--publishers-moved", "--held", "deliver", code=1)  # as some might have been lost
        status = await site.json("status")
        assert status["exchanges"][0]["type"] == "topic"
        assert status["exchanges"][0]["held_when_replaced"] == 20
        assert "it may hold messages: orders 20" in status["plugin"]
        for queue, delay_ms in ((await channel.get_queue("orders-0"), LATER_MS), (quorum, -LATER_MS)):
            async with queue.iterator(timeout=60) as deliveries:
                found = [await anext(deliveries) for _ in range(20)]
            assert {int(message.body) for message in found} == set(range(20))
            assert {message.headers["x-delay"] for message in found} == {delay_ms}


async def test_what_is_due_while_the_exchange_is_replaced_is_said_to_be_lost(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = Migration._delete

    async def delete_until_all_are_due(self: Migration, exchange: str) -> None:
        await delete(self, exchange)
        while site.request("GET", "exchanges/{}/twin")["messages_delayed"]:
            await pause()

    async with site.channel() as channel:
        await declare_old(channel)
        await declare_old(channel, "twin")  # its message is due after those of orders
        orders, twin = [await channel.get_exchange(name) for name in ("orders", "twin")]
        for number in range(5):
            sent = Message(b"%d" % number, headers={"x-delay": LATER_MS})
            await orders.publish(sent, "order.1", mandatory=False)
        await twin.publish(Message(b"last", headers={"x-delay": LATER_MS + 100}), "order.1", mandatory=False)
        await held(site, 5)
        planned = await site.migrate("plan", "--held", "deliver", "--exchange", "orders")
        assert "What the plugin has due in these milliseconds is lost" in planned
        monkeypatch.setattr(Migration, "_delete", delete_until_all_are_due)
        monkeypatch.setattr("topology.migration.carry_out._PACE_S", 0.05)
        told = ("apply", "--publishers-moved", "--held", "deliver", "--exchange", "orders")
        output = await site.migrate(*told, code=1)
        assert "Messages that the plugin had due then are LOST: 5 at most" in output
        assert "Every step is done." not in output
        queue = await channel.get_queue("orders-0")
        assert queue.declaration_result.message_count == 0
    await site.migrate(*told)
    assert "it may hold messages: orders 5" in (await site.migrate("status", "--exchange", "orders"))


async def test_message_that_reaches_the_plugin_at_the_last_moment_stops_the_replacement(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site.channel() as channel:
        await declare_old(channel)
        exchange = await channel.get_exchange("orders")
        import_ = Migration._import

        async def import_and_publish(self: Migration, definitions: Any) -> None:
            await import_(self, definitions)
            if not definitions:  # the last call before the delete
                site.request("POST", "exchanges/{}/orders/publish", LATE)
                await held(site, 1)

        monkeypatch.setattr(Migration, "_import", import_and_publish)
        assert "the plugin holds 1 messages" in (await site.migrate("apply", "--publishers-moved", code=1))
        assert await stages(site) == {"orders": "prepared"}
        await exchange.publish(Message(b"passes"), "order.1")


async def test_cluster_is_not_taken_for_empty_by_the_word_of_one_node(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nodes(_: object) -> list[str]:
        return ["rabbit@other"]

    monkeypatch.setattr("topology.migration.survey._nodes", nodes)
    async with site.channel() as channel:
        await declare_old(channel)
        await declare_old(channel, "mails")
    output = await site.migrate("apply", "--publishers-moved", code=5)
    assert "only rabbit@other can say what theirs hold" in output
    assert await stages(site) == {"orders": "prepared", "mails": "prepared"}
    risky = await site.migrate("apply", "--publishers-moved", "--held", "deliver", "--exchange", "mails", code=1)
    assert "Nobody knows whether the plugin held messages." in risky
    await site.migrate("apply", "--publishers-moved", "--held", "none")
    assert await stages(site) == {"orders": "replaced", "mails": "replaced"}


async def test_interrupted_replacement_remembers_what_the_plugin_holds(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topology.migration.carry_out._PACE_S", 0.05)
    async with site.channel() as channel:
        await declare_old(channel)
        exchange = await channel.get_exchange("orders")
        await exchange.publish(Message(b"waits", headers={"x-delay": 3_600_000}), "order.1", mandatory=False)
        await held(site, 1)
    await site.migrate("apply", code=5)
    told = ("apply", "--publishers-moved", "--held", "deliver")
    with monkeypatch.context() as patched:
        die_before(patched, "import")
        await site.migrate(*told, code=1)
    assert "since an earlier command deleted it" in (await site.migrate(*told, code=1))
    assert "it may hold messages: orders 1" in (await site.migrate("status"))


async def test_without_the_plugin_the_replacement_and_the_way_back_wait(site: Site, plugin: Plugin) -> None:
    async with site.channel() as channel:
        await declare_old(channel)
    before = site.export()
    plugin.off()
    assert "the plugin is off and delivers nothing" in (await site.migrate("apply", "--publishers-moved", code=5))
    assert await stages(site) == {"orders": "prepared"}
    await site.migrate("apply", "--publishers-moved", "--held", "lose")
    assert await stages(site) == {"orders": "replaced"}
    assert "switch the plugin on" in (await site.migrate("rollback", "--publishers-back", code=5))
    plugin.on()
    await site.migrate("rollback", "--publishers-back")
    assert site.export() == before


@pytest.mark.parametrize("command", ["apply", "rollback"])
@pytest.mark.parametrize("dies_before", ["delete", "import", "end"])
async def test_interrupted_command_goes_on(
    site: Site, command: str, dies_before: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with site.channel() as channel:
        await declare_old(channel)
    before = site.export()
    if command == "rollback":
        await site.migrate("apply", "--publishers-moved")
    else:
        await site.migrate("apply", code=5)
    wanted = "--publishers-moved" if command == "apply" else "--publishers-back"
    with monkeypatch.context() as patched:
        die_before(patched, dies_before)
        await site.migrate(command, wanted, code=1)
    assert await stages(site) == {"orders": "interrupted: run the last command again"}
    assert "interrupted" in (await site.migrate("status"))
    await site.migrate(command, wanted)
    if command == "apply":
        assert await stages(site) == {"orders": "replaced"}
        await site.migrate("rollback", "--publishers-back")
    assert site.export() == before


def die_before(monkeypatch: pytest.MonkeyPatch, step: str) -> None:
    """Ends the command where it would delete the exchange, declare it, or note the end."""

    async def import_(self: Migration, definitions: Any) -> None:
        if definitions.get("exchanges"):
            raise OSError("killed")

    def die(*_: object) -> None:
        raise OSError("killed")

    match step:
        case "delete":
            monkeypatch.setattr(Migration, "_delete", die)
        case "import":
            monkeypatch.setattr(Migration, "_import", import_)
        case "end":
            monkeypatch.setattr("topology.migration.kept.KeptFile.end", die)


async def test_client_that_declares_the_exchange_meanwhile_loses_the_race(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = Migration._delete
    times = 0

    async def delete_and_declare(self: Migration, exchange: str) -> None:
        nonlocal times
        await delete(self, exchange)
        times += 1
        if times <= 2:
            async with site.channel() as channel:
                await channel.declare_exchange(exchange, DELAYED, durable=True, arguments={"x-delayed-type": "topic"})

    async with site.channel() as channel:
        await declare_old(channel)
    monkeypatch.setattr(Migration, "_delete", delete_and_declare)
    await site.migrate("apply", "--publishers-moved")
    assert times == 3
    assert await stages(site) == {"orders": "replaced"}
    assert sum('"source": "orders"' in row for row in site.export()["bindings"]) == 2


async def test_binding_whose_queue_goes_meanwhile_does_not_stop_the_others(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = Migration._delete

    async def delete_both(self: Migration, exchange: str) -> None:
        await delete(self, exchange)
        site.request("DELETE", "queues/{}/orders-0")

    async with site.channel() as channel:
        await declare_old(channel)
    monkeypatch.setattr(Migration, "_delete", delete_both)
    await site.migrate("apply", "--publishers-moved")
    assert [json.loads(row)["destination"] for row in site.export()["bindings"] if '"source": "orders"' in row] == [
        "orders-1"
    ]


async def test_user_who_may_not_import_changes_nothing(site: Site) -> None:
    async with site.channel() as channel:
        await declare_old(channel)
    await site.migrate("apply", code=5)
    before = site.export()
    site.request("PUT", "users/few", {"password": "few", "tags": "management"})
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    site.request("PUT", "permissions/{}/few", everything)
    url = site.node.management_url.replace("guest:guest", "few:few")
    assert "401" in (await site.migrate("apply", "--publishers-moved", "--management-url", url, code=1))
    assert site.export() == before


async def test_only_the_named_exchange_is_replaced(site: Site) -> None:
    async with site.channel() as channel:
        await declare_old(channel)
        await declare_old(channel, "mails", "direct")
    await site.migrate("apply", "--publishers-moved", "--exchange", "mails")
    assert await stages(site) == {"orders": "not begun", "mails": "replaced"}
    assert "plugin: on, and needed" in (await site.migrate("status"))
    assert "no exchange 'other'" in (await site.migrate("apply", "--exchange", "other", code=1))


async def test_plan_of_a_file_is_that_of_the_broker(site: Site, tmp_path: Any) -> None:
    async with site.channel() as channel:
        await declare_old(channel)
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps(site.request("GET", "definitions/{}")))
    of_file, of_broker = await site.json("plan", "--definitions", str(file)), await site.json("plan")
    assert [step["what"].replace("an unknown number of", "0") for step in of_file["steps"]] == [
        step["what"] for step in of_broker["steps"]
    ]
    assert "unknown" in of_file["plugin"]


async def test_virtual_host_without_a_bridge_is_named(site: Site) -> None:
    site.request("DELETE", "queues/{}/delay.in")
    site.request(
        "PUT", "exchanges/{}/old", {"type": DELAYED, "durable": True, "arguments": {"x-delayed-type": "topic"}}
    )
    assert "has no queue delay.in: run a bridge there first" in (await site.migrate("apply", code=5))
    assert "no virtual host 'missing'" in (await site.migrate("plan", "--vhost", "missing", code=1))
