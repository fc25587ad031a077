"""Messages that one call has together, beside the same ones by turns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridge.local.redis import RedisNode
from bridge.store.records import Claim, Confirmation, Outcome, read_each
from tests.property.test_transitions import MAX_DELAY_MS, asked, delays_ms, envelopes, retries, ttls_ms
from tests.property.world import World

IDS = ("a", "b", "c d")
claims = st.builds(
    Claim,
    id=st.sampled_from(IDS),
    mode=st.just("in"),
    when_ms=delays_ms | st.just(MAX_DELAY_MS + 1),
    ttl_ms=ttls_ms,
    max_retry=retries,
    nonce=st.integers(1, 3),
    max_delay_ms=st.just(MAX_DELAY_MS),
    fresh=st.just(0),
)
ready_direct_envelope = st.tuples(st.integers(0, 1), st.integers(0, 1), envelopes)
lost_ids = st.sets(st.sampled_from(IDS))
rounds = st.tuples(st.lists(claims, max_size=5), st.lists(ready_direct_envelope, max_size=5), lost_ids)
Rounds = list[tuple[list[Claim], list[tuple[int, int, bytes]], set[str]]]


@pytest.fixture(scope="module")
def asking(redis_node: RedisNode) -> Iterator[Any]:
    with asked(redis_node) as asking:
        yield asking


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sent=st.lists(rounds, max_size=3))
def test_messages_of_one_call_end_as_those_of_many_calls_do(asking: Any, sent: Rounds) -> None:
    together, by_turns = World(*asking), World(*asking)

    assert ends(together, sent, at_once=5) == ends(by_turns, sent, at_once=1)
    together.clear()
    by_turns.clear()


def ends(world: World, sent: Rounds, *, at_once: int) -> list[object]:
    """What is answered, and how all stand in the end."""
    for name in IDS:
        world.broker(name)
    answered: list[Outcome] = []
    for claimed, said, lost in sent:
        outcomes = answers(world, "schedule", claimed, at_once)
        created = [one.found for one in outcomes if one.verdict == "created"]
        confirmations = [
            Confirmation(record.id, record.epoch, record.nonce, record.created_ms, *how)
            for record, how in zip(created, said, strict=False)
        ]
        answered += [*outcomes, *answers(world, "confirm", confirmations, at_once)]
        for name in sorted(lost):
            world.lose(name)
    kept = [world.kept(name) for name in IDS]
    apart = world.command("MGET", *(world.records.keys.record(world.topic, name)[1] for name in IDS))
    return [[without_topic(one) for one in found] for found in (answered, kept)] + [apart]


def answers(world: World, name: str, messages: Sequence[Any], at_once: int) -> list[Outcome]:
    build, outcomes = getattr(world.records, name), list[Outcome]()
    for start in range(0, len(messages), at_once):
        of_call = messages[start : start + at_once]
        (answer,) = world.raw([build(world.topic, of_call)])
        outcomes += read_each(world.topic, [one.id for one in of_call], answer)
    return outcomes


def without_topic(one: Any) -> Any:
    return replace(one, record=one.record and replace(one.record, topic=""))
