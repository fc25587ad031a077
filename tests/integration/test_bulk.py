"""Tests actions on all messages that a filter matches: what they take, what they leave, and what they count."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.integration.bulk import act, send_numbered, until_ended
from tests.integration.dead_letters import dead_ids, make_dead
from tests.integration.topic import Topic, due_ms


def counted(applied: dict[str, Any]) -> tuple[int, int, int]:
    return applied["matched"], applied["done"], applied["failed"]


async def test_dry_run_counts_what_a_delete_then_does(topic: Topic) -> None:
    await send_numbered(topic, "a", 7, delay="1h")
    await send_numbered(topic, "b", 3, delay="1h")
    await make_dead(topic, "a-dead", "b-dead")
    await topic.send(id="a-ready")
    await topic.until_state("a-ready", "ready")
    tried = await act(topic, "delete", id_prefix="a-", dry_run=True)
    assert (counted(tried), tried["dry_run"]) == ((9, 0, 0), True)
    assert await topic.state("a-000000") == "waiting"
    done = await act(topic, "delete", id_prefix="a-")
    assert (counted(done), done["failures"], done["operation"]) == ((9, 9, 0), [], None)
    assert counted(await act(topic, "delete", id_prefix="a-")) == (0, 0, 0)
    counts = (await topic.info())["counts"]
    assert {state: count for state, count in counts.items() if count} == {"waiting": 3, "dead": 1, "deleted": 9}
    assert await dead_ids(topic) == ["b-dead"]


async def test_move_counts_each_message_once_although_all_stay_in_the_window(topic: Topic) -> None:
    early = await send_numbered(topic, "early", 150, delay="1h")
    late = await send_numbered(topic, "late", 150, delay="3h")  # together more than a portion
    goal = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=2)
    window: dict[str, Any] = {
        "due_after": (goal - timedelta(hours=2)).isoformat(),
        "due_before": (goal + timedelta(hours=2)).isoformat(),
    }
    tried = await act(topic, "move", **window, deliver_at=goal.isoformat(), dry_run=True)
    done = await act(topic, "move", **window, deliver_at=goal.isoformat())
    assert (tried["matched"], counted(done)) == (300, (300, 300, 0))
    goal_ms = int(goal.timestamp() * 1_000)
    for message_id in (early[0], early[-1], late[0], late[-1]):
        assert due_ms(await topic.look(message_id)) == goal_ms
    # All are there, so none matches.
    assert counted(await act(topic, "move", deliver_at=goal.isoformat())) == (0, 0, 0)


async def test_replay_takes_only_letters_with_the_reason(topic: Topic) -> None:
    await make_dead(topic, "a", "b")
    await topic.send(id="c", max_retry=0)
    await topic.nack(await topic.pull_one(), reason="card declined")
    await topic.send(id="a", delay="1h")  # the letter goes on under another id
    tried = await act(topic, "replay", reason_pattern="ref*", dry_run=True)
    assert counted(tried) == (2, 0, 0)
    assert counted(await act(topic, "replay", reason_pattern="ref*")) == (2, 2, 0)
    replayed = sorted(await topic.pull_ids(2, max=2))
    assert (replayed[0].startswith("a~dead"), replayed[1]) == (True, "b")
    assert (await dead_ids(topic), await topic.state("a")) == (["c"], "waiting")


async def test_reason_with_an_asterisk_takes_only_letters_with_exactly_this_reason(topic: Topic) -> None:
    for number, reason in enumerate(("err *", "err 1", "err 2")):
        await topic.send(id=f"m-{number}", max_retry=0)
        await topic.nack(await topic.pull_one(), reason=reason)
    assert counted(await act(topic, "delete", state=["dead"], reason="err *")) == (1, 1, 0)
    assert await dead_ids(topic) == ["m-1", "m-2"]
    assert counted(await act(topic, "delete", reason="err *", reason_pattern="err*")) == (0, 0, 0)
    assert counted(await act(topic, "delete", state=["dead"], reason_pattern="err *")) == (2, 2, 0)


async def test_only_the_first_messages_are_changed_up_to_the_maximum(topic: Topic) -> None:
    for number, delay in enumerate(("3h", "1h", "2h")):
        await topic.send(id=f"m-{number}", delay=delay)
    assert counted(await act(topic, "delete", max=2)) == (2, 2, 0)
    assert [await topic.state(f"m-{number}") for number in range(3)] == ["waiting", "deleted", "deleted"]


async def test_many_messages_are_left_to_an_operation(topic: Topic) -> None:
    """A message that is sent after the call does not match."""
    await send_numbered(topic, "m", 1_003, delay="1h")
    begun = await act(topic, "run-now", id_prefix="m-", expect=202, max=1_001)
    assert (begun["matched"], begun["done"], begun["operation"]["state"]) == (1_001, 0, "running")
    assert begun["operation"]["filter"] == {"topic": topic.name, "state": ["waiting"], "id_prefix": "m-"}
    await topic.send(id="m-later", delay="1h")
    ended = await until_ended(topic, begun["operation"]["id"])
    assert (ended["state"], *counted(ended)) == ("done", 1_001, 1_001, 0)
    assert len(set(await topic.pull_ids(1_001, max=100))) == 1_001
    assert (await topic.info())["counts"]["waiting"] == 3
    listed = (await topic.client.get("/v1/operations?limit=1000")).json()["items"]
    assert ended in listed
    cancelled = await topic.client.post(f"/v1/operations/{ended['id']}/cancel")
    assert (cancelled.status_code, cancelled.json()) == (200, ended)


@pytest.mark.parametrize(
    ("action", "fields", "field"),
    [
        ("delete", {"topic": None}, "topic"),
        ("delete", {"state": ["waiting", "acked"]}, "state"),
        ("replay", {"state": ["waiting"]}, "state"),
        ("run-now", {"reason": "refused"}, "reason"),
        ("run-now", {"reason_pattern": "ref*"}, "reason_pattern"),
        ("move", {}, "delay"),
        ("move", {"delay": "1h", "deliver_at": "2030-01-01T00:00:00Z"}, "delay"),
        ("move", {"deliver_at": "2130-01-01T00:00:00Z"}, "deliver_at"),
        ("delete", {"delay": "1h"}, "delay"),
        ("delete", {"max": 0}, "max"),
        ("delete", {"dry_run": "yes"}, "dry_run"),
    ],
)
async def test_wrong_request_names_its_field(topic: Topic, action: str, fields: dict[str, Any], field: str) -> None:
    refused = await act(topic, action, expect=422, **fields)
    assert field in [error["field"] for error in refused["errors"]]


async def test_unknown_names_are_not_found(topic: Topic) -> None:
    await act(topic.beside("none"), "delete", expect=404)
    assert counted(await act(topic, "delete", topic=f"{topic.name}.none*")) == (0, 0, 0)
    for path in ("", "/cancel"):
        method = "POST" if path else "GET"
        for operation_id, status in (("01KBQ5J0G0M8V4Q6W2E9R7T5Y3", 404), ("none", 422)):
            answer = await topic.client.request(method, f"/v1/operations/{operation_id}{path}")
            assert answer.status_code == status
