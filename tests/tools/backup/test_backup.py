"""Tests `delaybridge backup` and `restore`: from one pair of servers to another that is empty."""

from __future__ import annotations

import json
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.command import command
from tests.integration.dead_letters import dead_ids, make_dead
from tests.integration.own import Own, own_bridge
from tests.integration.schedules import Schedule
from tests.integration.topic import due_ms

pytestmark = pytest.mark.timeout(180)

WAITING, BATCH = 10_000, 1_000


@pytest_asyncio.fixture(scope="module")
async def wiped(rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path) -> AsyncIterator[Own]:
    """A bridge on empty servers."""
    async with own_bridge(rabbit, redis_node.url, local_dir) as own:
        yield own


@pytest_asyncio.fixture(scope="module")
async def former(rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path) -> AsyncIterator[Own]:
    async with own_bridge(rabbit, redis_node.url, local_dir) as own:
        yield own


async def test_backup_of_ten_thousand_waiting_is_restored_on_empty_servers(
    former: Own, wiped: Own, tmp_path: Path
) -> None:
    old, new = former.topic, former.topic.through(wiped.topic.client)
    await old.put_policy(max_retry=7, ttl="1h")
    due: dict[str, int] = {}
    for start in range(0, WAITING, BATCH):
        messages = [{"body": at, "delay": 12_000 + at % 4_000} for at in range(start, start + BATCH)]
        due |= {one["message"]["id"]: due_ms(one["message"]) for one in await old.send_many(*messages)}
    gone = list(due)[:3]
    for one in gone:
        await old.delete(one)
        del due[one]
    other, others = old.beside("other"), new.beside("other")
    await other.send(id="acked")
    await other.ack(await other.pull_one())
    await make_dead(other, "letter")
    await other.send(id="leased", headers={"from": "former"}, body="x" * 5_000)
    leased = await other.pull_one(lease="10s")
    file = tmp_path / "backup.ndjson"

    await run("backup", former, file)
    assert file.stat().st_mode & 0o777 == 0o600
    restored = await run("restore", wiped, file)
    assert restored["messages"] == WAITING + 3  # with a letter, a leased and an acked one, and tombstones
    assert await run("restore", wiped, file) == {"topics": 2, "kept": WAITING + 3}

    assert (await new.info())["policy"]["max_retry"] == 7
    assert [await new.state(one) for one in gone] == ["deleted"] * 3
    assert await others.state("acked") == "acked"
    timeline = await others.call("GET", "/messages/acked/timeline")
    assert ([one["what"] for one in timeline["items"]], timeline["complete"]) == (["restored"], False)
    assert await dead_ids(others) == ["letter"]
    await others.call("POST", "/dead/letter/replay")
    back = {one["id"]: one for one in (await others.pull_one(), await others.pull_one())}
    assert back["letter"]["body"] == {"of": "letter"}
    assert (back["leased"]["attempts"], back["leased"]["body"]) == (2, leased["body"])
    assert back["leased"]["headers"]["from"] == "former"
    await others.ack_many(receipts=[one["receipt"] for one in back.values()])

    while due:
        pulled = await new.pull(max=100)
        now_ms = time.time() * 1_000
        for message in pulled:
            assert message["attempts"] == 1
            assert now_ms >= due.pop(message["id"])  # a KeyError if an id comes twice
        await new.ack_many(receipts=[message["receipt"] for message in pulled])
    assert await new.pull(wait=0) == []


async def test_letter_that_waits_in_the_backup_waits_again_and_is_no_letter(wiped: Own, tmp_path: Path) -> None:
    topic, file = wiped.topic.beside("replayed"), tmp_path / "backup.ndjson"
    await make_dead(topic, "again")
    await run("backup", wiped, file)
    lines = [json.loads(line) for line in file.read_bytes().splitlines()]
    (letter,) = [line for line in lines if line.get("id") == "again"]
    letter |= {"state": "waiting", "epoch": letter["epoch"] + 1, "attempts": 0, "reason": ""}
    file.write_text("\n".join(map(json.dumps, lines)))

    assert (await run("restore", wiped, file))["messages"] == 1
    assert await dead_ids(topic) == []
    await topic.ack(await topic.pull_one())
    assert await topic.state("again") == "acked"


async def test_restore_says_its_servers_once_and_its_counts(former: Own, wiped: Own, tmp_path: Path) -> None:
    file = tmp_path / "backup.ndjson"
    await former.topic.beside("only").send(id="only", delay="1h")
    await run("backup", former, file)
    lines = [json.loads(line) for line in file.read_bytes().splitlines()]
    of_one = [line for line in lines if "only" in (line.get("topic") or "") or line["kind"] in ("backup", "end")]
    file.write_text("\n".join(map(json.dumps, of_one)))

    amqp_url, redis_url = (wiped.settings[name] for name in ("BRIDGE_AMQP_URL", "BRIDGE_REDIS_URL"))
    running = {"http": "", "amqp": amqp_url, "redis": redis_url, "management": None, "pids": {"bridge": [os.getpid()]}}
    (tmp_path / "run.json").write_text(json.dumps(running))
    others = {name: value for name, value in wiped.settings.items() if not name.endswith("_URL")}
    done = await command("restore", str(file), settings={**others, "BRIDGE_LOCAL_DIR": str(tmp_path)})
    assert (done.exit_code, done.stdout) == (0, "1 topic, 1 message.\n"), done.stderr
    (note,) = done.stderr.splitlines()
    assert note.startswith(f"delaybridge: asks the servers of the running {tmp_path}/run.json: ")


async def test_schedule_is_restored_and_begins_then(former: Own, wiped: Own, tmp_path: Path) -> None:
    topic, file = former.topic.beside("yearly"), tmp_path / "backup.ndjson"
    message = {"body": "happy new year", "content_type": "text/plain", "labels": {"a": "b"}}
    old, new = Schedule(topic, "yearly"), Schedule(topic.through(wiped.topic.client), "yearly")
    await old.put(cron="0 0 1 1 *", timezone="Europe/Vienna", missed="all", message=message)
    await run("backup", former, file)

    assert (await run("restore", wiped, file))["schedules"] == 1
    assert "schedules" not in await run("restore", wiped, file)
    shown, back = await old.look(), await new.look()
    assert back == shown | {"changed_at": back["changed_at"]}
    assert back["changed_at"] > shown["changed_at"]


async def test_file_without_its_end_is_refused(former: Own, wiped: Own, tmp_path: Path) -> None:
    file = tmp_path / "backup.ndjson"
    await run("backup", former, file)
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-1]))
    done = await command("restore", str(file), settings=wiped.settings)
    assert done.exit_code == 1
    assert "without its end" in done.stderr


async def test_lines_before_a_wrong_one_are_restored(former: Own, wiped: Own, tmp_path: Path) -> None:
    topic, file = former.topic.beside("cut"), tmp_path / "backup.ndjson"
    await topic.send(id="whole", delay="1h")
    await run("backup", former, file)
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:-1], lines[-2][:20]]))
    done = await command("restore", str(file), "--json", settings=wiped.settings)
    assert done.exit_code == 1
    assert f"line {len(lines)} is not JSON" in done.stderr
    restored = json.loads(done.stdout)["messages"]
    assert restored > 0
    (action,) = (await wiped.topic.client.get("/v1/actions?limit=1")).json()["items"]
    assert (action["what"], action["count"]) == ("restore", restored)
    assert (await topic.through(wiped.topic.client).look("whole"))["state"] == "waiting"


async def run(what: str, own: Own, file: Path) -> Any:
    """Runs the command, and returns its counts."""
    done = await command(what, str(file), "--json", settings=own.settings)
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout or done.stderr)
