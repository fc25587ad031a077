"""Tests that the client commands do and print what the API does, as an operator types them."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import httpx2
import pytest_asyncio

from bridge.cli.commands import COMMANDS
from tests.integration.bulk import send_numbered
from tests.integration.cli.calling import Calling
from tests.integration.dead_letters import make_dead, until_dead
from tests.integration.topic import PATIENCE, Topic
from tests.terminal import on_terminal
from tests.waiting import pause

SECRET = "whsec_" + b64encode(bytes(32)).decode()
MANY = 1_003
OF_SERVERS = {
    *("serve", "dev", "doctor", "topology", "token", "config", "audit", "backup", "restore", "door", "migrate"),
}


@pytest_asyncio.fixture(scope="module")
async def crowded(client: httpx2.AsyncClient) -> Topic:
    """A topic with more messages than a page of a list has, and than a call changes itself."""
    topic = Topic(client, f"crowded-{uuid4().hex[:12]}")
    await send_numbered(topic, "m", MANY, delay="1h", labels={"customer": "42"})
    return topic


async def test_first_steps_of_the_readme_need_commands_alone(cli: Calling, topic: Topic) -> None:
    sent = await cli.one("send", topic.name, '{"hello": "world"}', "--id", "hello-1", "--delay", "200ms")
    assert (sent["id"], sent["body"]) == ("hello-1", {"hello": "world"})
    assert (await cli.one("get", topic.name, "hello-1"))["due_at"] == sent["due_at"]
    pulled = await cli.one("pull", topic.name, "--wait", PATIENCE, "--lease", "30s")
    assert (pulled["id"], pulled["state"]) == ("hello-1", "leased")
    assert await cli.one("ack", topic.name, "--receipt", pulled["receipt"]) == {"id": "hello-1", "result": "acked"}

    sent = await cli.one("send", topic.name, "pay the bill", "--text", "--id", "bill-7", "--delay", "30d")
    assert (sent["body"], sent["content_type"]) == ("pay the bill", "text/plain")
    moved = await cli.one("move", topic.name, "bill-7", "--delay", "44d")
    assert moved["due_at"] > sent["due_at"]
    assert [item["id"] for item in await cli.all("list", topic.name, "--state", "waiting")] == ["bill-7"]
    await cli.one("send", topic.name, "1", "--delay", "50d", "--label", "customer=4 2", "--label", "region=eu")
    of_label = ("list", f"{topic.name}*", "--label", "customer=4 2", "--order", "desc")
    (found,) = await cli.all(*of_label)
    assert found["labels"] == {"customer": "4 2", "region": "eu"}
    assert topic.name in (await cli.run(*of_label)).stdout
    assert not await cli.all(*of_label, "--id-prefix", "bill", "--reason-pattern", "*")
    assert (await cli.one("delete", topic.name, "bill-7"))["state"] == "deleted"


async def test_sends_replace_and_repeat_and_changes_heed_an_etag(cli: Calling, topic: Topic) -> None:
    sent = ("send", topic.name, "1", "--id", "m-1", "--delay", "1h")
    first = await cli.one(*sent)
    assert "sent earlier" in (await cli.run(*sent)).stderr
    refused = await cli.run(*sent[:2], "2", *sent[3:], code=2)
    assert "body: is another than that of the message 'm-1'" in refused.stderr
    replaced = await cli.one(*sent[:2], "2", *sent[3:], "--if-exists", "replace")
    assert (replaced["body"], replaced["created_at"] > first["created_at"]) == (2, True)
    extended = await cli.one(*sent[:2], "3", *sent[3:], "--if-exists", "extend", "--max-wait", "2h")
    assert (extended["body"], extended["created_at"]) == (3, replaced["created_at"])
    keyed = ("send", topic.name, '"once"', "--delay", "1h", "--idempotency-key", 'a "key"')
    assert await cli.one(*keyed) == await cli.one(*keyed)
    tag = (await cli.run("get", topic.name, "m-1", "--etag")).stdout.strip()
    changed = await cli.one("change", topic.name, "m-1", "text", "--text", "--header", "a=1", "--if-match", tag)
    assert (changed["body"], changed["headers"], changed["due_at"]) == ("text", {"a": "1"}, extended["due_at"])
    for stale in (("change", topic.name, "m-1", "--ttl", "1m"), ("delete", topic.name, "m-1")):
        assert "another ETag" in (await cli.run(*stale, "--if-match", tag, code=5)).stderr


async def test_list_follows_the_pages_up_to_the_limit(cli: Calling, crowded: Topic) -> None:
    await crowded.send(id="last", delay="10d")
    assert len(await cli.all("list", crowded.name)) == 100
    listed = (await cli.run("list", crowded.name, "--limit", "5000", "--state", "waiting")).stdout.splitlines()
    assert (listed[0].split()[0], listed[-1].split()[0]) == ("id", "last")
    assert len(listed) == 1 + MANY + 1


async def test_bulk_waits_for_its_operation(cli: Calling, crowded: Topic) -> None:
    topic = crowded
    await topic.send(id="other", delay="1h")
    chosen = ("bulk", "delete", f"{topic.name}*", "--label", "customer=42", "--state", "waiting")
    tried = await cli.one(*chosen, "--dry-run")
    assert (tried["matched"], tried["done"], tried["dry_run"]) == (MANY, 0, True)
    assert (await cli.one(*chosen, "--max", "2"))["done"] == 2
    moved = await cli.one("bulk", "move", topic.name, "--id-prefix", "m-", "--delay", "9h")
    assert (moved["state"], moved["matched"], moved["done"], moved["failed"]) == ("done", *[MANY - 2] * 2, 0)
    begun = (await cli.one(*chosen, "--no-wait"))["operation"]
    while (shown := await cli.one("operations", "show", begun["id"]))["state"] == "running":
        await pause()
    assert (shown["state"], shown["done"]) == ("done", MANY - 2)
    assert await cli.one("operations", "cancel", begun["id"]) == shown
    assert await topic.state("other") == "waiting"
    refused = await cli.run("bulk", "replay", topic.name, "--state", "waiting", code=2)
    assert "state: replay can't take waiting messages" in refused.stderr
    await cli.run("bulk", "paint", topic.name, code=2)


async def test_every_client_command_prints_json_and_plain_columns(cli: Calling, topic: Topic, tmp_path: Path) -> None:
    await make_dead(topic, "d-1", "d-2", "d-3")
    await until_dead(topic, "d-3")
    await topic.send_many(*({"id": f"w-{number}", "body": number, "delay": f"{number}h"} for number in (1, 2, 3)))
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    receiver = ("https://hooks.example.com/orders", "--secret-file", str(secret), "--backoff", "5s,1m")
    name, used = topic.name, set()

    async def both(*arguments: str) -> None:
        used.add(arguments[0])
        assert await cli.all(*arguments)
        assert not (await cli.run(*arguments)).stdout.startswith("{")

    await both("send", name, "1", "--delay", "1d")
    await both("get", name, "w-1")
    await both("move", name, "w-1", "--deliver-at", f"{datetime.now(UTC) + timedelta(days=900):%Y-%m-%dT%H:%M:%SZ}")
    await both("change", name, "w-1", '"new"', "--max-retry", "9", "--label", "customer=42")
    await both("timeline", name, "w-1")
    await both("list", name)
    await both("topics")
    await both("topics", "show", name)
    await both("topics", "set", name, "--max-retry", "5", "--backoff", "5s,1m", "--ttl", "default")
    await both("topics", "set", name, "--backoff", '{"first": "1s", "max": "1m"}')
    await both("topics", "set", f"{name}.made", "--lease", "1m", "--create")
    await both("bulk", "move", name, "--id-prefix", "w-2", "--delay", "9h")
    await both("operations")
    await both("dead", "list", name)
    await both("subscriptions", "set", f"{name}.made", *receiver)
    await both("subscriptions", "show", f"{name}.made")
    await both("subscriptions")
    await both("watch", name, "--count", "2", "--every", "100ms")
    await schedules(cli, both, name, tmp_path)
    await both("version")
    await both("pause", name)
    await both("resume", name)
    await both("delete", name, "w-3", "--release")
    await both("dead", "replay", name, "--max", "1")
    assert (await cli.one("dead", "drop", name, "d-3"))["state"] == "deleted"
    assert await cli.one("dead", "drop", name, "--max", "1") == {"dropped": 0}
    moved = await topic.look("w-1")
    assert (await cli.one("run-now", name, "w-1"))["due_at"] < moved["due_at"]
    pulled = await cli.one("pull", f"{name}.made", name, "--wait", PATIENCE)
    nacked = await cli.one("nack", name, pulled["id"], "--receipt", pulled["receipt"], "--reason", "no paper")
    assert nacked["reason"] == "no paper"
    pulled = await cli.one("pull", name, "--wait", PATIENCE)
    assert (await cli.run("ack", name, pulled["id"])).stdout.split() == ["id", "result", pulled["id"], "acked"]
    assert (await cli.one("subscriptions", "remove", f"{name}.made"))["removed"]
    assert (await cli.one("topics", "remove", f"{name}.made", "--force"))["removed"]
    assert COMMANDS.keys() - used - OF_SERVERS == {"pull", "ack", "nack", "run-now"}


async def schedules(cli: Calling, both: Callable[..., Awaitable[None]], name: str, folder: Path) -> None:
    """Calls each command of schedules."""
    topic = f"{name}.ticks"
    await both(
        "schedule", "set", name, topic, "{}", "--cron", "0 3 1 1 *", "--timezone", "Europe/Vienna", "--label", "a=b"
    )
    await both("schedule", "set", name, topic, "tick", "--text", "--every", "9h", "--jitter", "1m", "--missed", "skip")
    to = ("--to-exchange", "shop", "--to-routing-key", "eu")
    aimed = await cli.one("schedule", "set", f"{name}-to", topic, "1", "--cron", "0 3 1 1 *", *to)
    sent = await cli.one("send", topic, "1", "--delay", "1h", *to)
    assert aimed["message"]["to"] == sent["to"] == {"exchange": "shop", "routing_key": "eu"}
    assert "--to-exchange" in (await cli.run("send", topic, "1", *to[2:], code=2)).stderr
    await cli.one("schedule", "remove", f"{name}-to")
    await both("schedule")
    await both("schedule", "show", name)
    assert len(await cli.all("schedule", "next", name, "--count", "7")) == 7
    span = ("--from", "2026-01-01T00:00:00Z", "--to", "2026-01-01T23:00:00Z")
    assert [(await cli.one("schedule", "backfill", name, *span))["sent"] for _ in range(2)] == [3, 0]
    assert (await cli.one("schedule", "trigger", name))["body"] == "tick"
    assert (await cli.one("schedule", "pause", name))["state"] == "paused"
    assert (await cli.one("schedule", "resume", name))["state"] == "active"
    file = folder / "schedules.toml"
    file.write_text(
        f"""
        [schedules.{name}]
        every = "9h"
        start = 2030-01-01T00:00:00Z
        topic = "{topic}"
        message.body = {{ a = 1 }}
        """
    )
    for _ in range(2):
        (applied,) = await cli.all("schedule", "apply", str(file))
        assert (applied["start"], applied["message"]["body"]) == ("2030-01-01T00:00:00.000Z", {"a": 1})
    file.write_text("[jobs.one]\n")
    assert "must have tables" in (await cli.run("schedule", "apply", str(file), code=2)).stderr
    assert (await cli.one("schedule", "remove", name))["removed"]


async def test_shared_options_come_before_or_after_the_command(cli: Calling, topic: Topic) -> None:
    await topic.send(id="one", delay="1h")
    elsewhere = Calling("http://127.0.0.1:1")
    spoken: list[tuple[str, ...]] = [
        ("--url", cli.url, "--json", "get", topic.name, "one"),
        ("get", f"--url={cli.url}", topic.name, "one", "--json"),
        (f"--url={cli.url}", "get", "--json", topic.name, "one"),
    ]
    for arguments in spoken:
        assert '"id":"one"' in (await elsewhere.run(*arguments)).stdout
    for words in (["--json", "topics", "--url", cli.url], ["topics", "--url", cli.url, "--json", "list"]):
        assert f'"topic":"{topic.name}"' in (await elsewhere.run(*words)).stdout
    assert "No such option: --url" in (await cli.run("--url", cli.url, "serve", code=2)).stderr


async def test_json_keeps_every_digit_of_the_numbers_in_a_body(cli: Calling, topic: Topic) -> None:
    body = '{"n":123456789012345678901234567890,"f":1.10000000000000000001,"e":1E400}'
    await cli.run("send", topic.name, body, "--id", "exact", "--delay", "1h")
    for arguments in (("get", topic.name, "exact"), ("list", topic.name)):
        assert body in (await cli.run(*arguments, "--json")).stdout


async def test_bodies_come_from_files_and_as_bytes(cli: Calling, topic: Topic, tmp_path: Path) -> None:
    file = tmp_path / "body"
    file.write_bytes(b"\x00\xff")
    sent = await cli.one("send", topic.name, str(file), "--file", "--bytes", "--header", "kind=a=b", "--delay", "1h")
    assert (sent["body_base64"], sent["headers"]) == ("AP8=", {"kind": "a=b"})
    assert "base64:AP8=" in (await cli.run("list", topic.name)).stdout


async def test_repeated_send_says_that_it_is_an_earlier_message(cli: Calling, topic: Topic) -> None:
    arguments = ("send", topic.name, "1", "--id", "once", "--delay", "1h")
    assert (await cli.run(*arguments)).stderr == ""
    assert "was sent earlier" in (await cli.run(*arguments)).stderr


async def test_pull_without_a_ready_message_prints_nothing(cli: Calling, topic: Topic) -> None:
    ended = await cli.run("pull", topic.name)
    assert (ended.stdout, ended.stderr) == ("", "No message was ready in time.\n")


async def test_watch_follows_a_message_until_it_has_ended(cli: Calling, topic: Topic) -> None:
    await topic.send(id="followed", delay=300)
    watching = asyncio.create_task(cli.all("watch", topic.name, "--id", "followed", "--every", "100ms"))
    message = await topic.pull_one()
    await topic.ack(message)
    states = [message["state"] for message in await watching]
    assert states[-1] == "acked"
    assert len(states) == len(set(states))


async def test_terminal_gets_tables_and_with_no_color_plain_columns(cli: Calling, topic: Topic) -> None:
    await topic.send("[red]x", id="one", delay="1h", headers={"steer": "\x1b[2J"})
    shapes: list[tuple[str, ...]] = [
        ("list", topic.name),
        ("get", topic.name, "one"),
        ("watch", topic.name, "--count=2", "--every=100ms"),
    ]
    for arguments in shapes:
        shown = await asyncio.to_thread(on_terminal, *arguments, "--url", cli.url, environment={"COLUMNS": "200"})
        assert "\x1b[1m" in shown
        assert "\x1b[2J" not in shown
        assert topic.name in shown or "[red]x" in shown
    plain = await asyncio.to_thread(
        on_terminal, "list", topic.name, environment={"BRIDGE_URL": cli.url, "NO_COLOR": "1"}
    )
    assert plain.split()[:3] == ["id", "state", "due"]
    assert "\x1b" not in plain
