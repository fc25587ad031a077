"""Tests what the console decides without a page: colours of receivers, the banner, and groups of dead letters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.clients.node import run, why_no_node

PAGE = Path(__file__).parents[3] / "bridge/http/console/page"


@pytest.fixture(scope="module", autouse=True)
def needs_node() -> None:
    if why := why_no_node():
        pytest.skip(why)


def evaluate(module: str, expression: str) -> Any:
    """Returns the value of an expression in JavaScript. `it`: the module of the console."""
    program = f"import * as it from {json.dumps(str(PAGE / module))}; console.log(JSON.stringify({expression}));"
    return json.loads(run("node", "--no-warnings", "--input-type=module", "--eval", program, folder=PAGE))


def test_receiver_is_red_until_a_success_after_its_latest_failure() -> None:
    failure = {"at": "2026-11-25T10:00:00.000Z", "reason": "status", "detail": "500"}
    receivers = [
        {"state": "active", "delivered": 0, "failed": 414, "last_delivered_at": None, "last_failure": failure},
        {"state": "active", "last_delivered_at": "2026-11-25T09:59:59.000Z", "last_failure": failure},
        {"state": "active", "last_delivered_at": "2026-11-25T10:00:00.001Z", "last_failure": failure},
        {"state": "active", "last_delivered_at": None, "last_failure": None},
        {"state": "gone", "last_delivered_at": None, "last_failure": failure},
    ]
    assert evaluate("receivers.js", f"{json.dumps(receivers)}.map(it.receiverState)") == [
        ["failing", "bad"],
        ["failing", "bad"],
        ["active", "ok"],
        ["active", "ok"],
        ["gone", "warn"],
    ]


def test_banner_is_yellow_from_a_hundred_dead_letters_on() -> None:
    overview = {
        "parts": {"broker": "ok", "store": "ok"},
        "findings": [],
        "missing": [],
        "oldest_overdue_ms": 0,
        "oldest_ready_ms": 0,
        "lateness": None,
        "paused": 0,
        "queues": {"refused": 0},
    }
    few, many, lots = ({**overview, "counts": {"dead": dead}} for dead in (99, 100, 1_092))
    verdicts = evaluate("verdict.js", f"{json.dumps([few, many, lots])}.map((one) => it.verdict(one, null))")
    assert verdicts == [
        {"level": level, "title": title, "says": [f"{number} dead letters wait for a replay or a delete."]}
        for level, title, number in (
            ("ok", "Messages are on time", "99"),
            ("warn", "On time, but many messages are dead", "100"),
            ("warn", "On time, but many messages are dead", "1,092"),
        )
    ]


def test_dead_letters_are_grouped_by_reason_and_read_up_to_five_thousand() -> None:
    letters = [{"id": "1", "reason": "err 1"}, {"id": "2", "reason": None}, {"id": "3", "reason": ""}]
    assert evaluate("letters.js", f"[...it.byReason({json.dumps(letters)})]") == [
        ["no reason given", letters[1:]],
        ["err 1", letters[:1]],
    ]
    states = "[[0, 'c'], [4999, 'c'], [5000, 'c'], [1000, null]]"
    read = f"{states}.map(([number, cursor]) => it.readsOn({{ items: Array(number), cursor }}))"
    assert evaluate("letters.js", read) == [True, True, False, False]
