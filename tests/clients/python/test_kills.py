"""Tests that no message is lost when its consumers are killed. `python -m tests.clients.python.kills` has more."""

from __future__ import annotations

from tests.clients.python.kills import judge


async def test_messages_of_killed_consumers_are_all_acked_within_their_retries(bridge_url: str) -> None:
    outcome = await judge(bridge_url, 500, seed=1)
    assert outcome.kept, outcome
    assert outcome.kills >= 2
