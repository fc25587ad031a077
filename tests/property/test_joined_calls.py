"""Tests that joined calls change the same as separate ones. Both run on a real Redis, and the results are compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.local.redis import RedisNode
from bridge.model.message import Copy, Envelope
from bridge.model.values import Draft
from bridge.store.calls import Call
from bridge.store.messages.outcomes import Outcome
from bridge.store.messages.records import Claim, Records
from bridge.store.scripts import SCRIPTS
from tests.examples import examples
from tests.property.test_transitions import (
    connected_store,
    delays_ms,
    envelopes,
    labels,
    retries,
    ttls_ms,
)
from tests.property.world import BORN_MS, World
from tests.records import claim as a_claim
from tests.records import draft as a_draft

IDS = ("a", "b", "c d")
drafts = st.builds(a_draft, id=st.just("given"), delay_ms=delays_ms, labels=labels)
claims = st.builds(
    a_claim,
    id=st.sampled_from(IDS),
    ttl_ms=ttls_ms,
    max_retry=retries,
    nonce=st.integers(1, 3),
    by=st.sampled_from(["", "-", "0f4c19a2b7de"]),
)
ready_direct_answer_by_envelope = st.tuples(
    st.booleans(), st.booleans(), st.sampled_from([0, BORN_MS - 1, BORN_MS]), envelopes
)
moments_ms = st.integers(-2_000, 2_000).map(lambda ms: BORN_MS + ms)
copies = st.builds(
    Copy,
    topic=st.just(""),
    id=st.sampled_from(IDS),
    epoch=st.integers(0, 3),
    nonce=st.integers(1, 3),
    attempt=st.integers(1, 3),
    max_retry=st.integers(0, 2),
    due_ms=moments_ms,
    expires_ms=st.just(0) | moments_ms,
    created_ms=st.just(BORN_MS),
    envelope=st.just(Envelope()),
)
lost_ids = st.sets(st.sampled_from(IDS))


def fire(records: Records, copy: Copy) -> Call[Any]:
    return records.fire(copy, paused_ms=0, adopt=copy.attempt > 1)


def lease(records: Records, copy: Copy) -> Call[Any]:
    return records.lease(copy, next_nonce=copy.nonce, lease_ms=1_000, arrives_in_ms=1_500, counted=copy.max_retry > 0)


def ack(records: Records, copy: Copy) -> Call[Any]:
    return records.ack(copy.topic, copy.id, epoch=copy.epoch or None)


Act = Callable[[Records, Copy], Call[Any]]
acts = st.tuples(st.sampled_from((fire, lease, ack)), copies)
rounds = st.tuples(
    st.lists(st.tuples(drafts, claims), max_size=5),
    st.lists(ready_direct_answer_by_envelope, max_size=5),
    st.lists(acts, max_size=8),
    lost_ids,
)
Rounds = list[tuple[list[tuple[Draft, Claim]], list[tuple[bool, bool, int, bytes]], list[tuple[Act, Copy]], set[str]]]


@pytest.fixture(scope="module")
def asking(redis_node: RedisNode) -> Iterator[Any]:
    with connected_store(redis_node) as (runner, store):
        # A call whose script Redis does not have yet runs behind the others, which would change the order.
        for script in SCRIPTS.values():
            runner.run(store.command("SCRIPT", "LOAD", script.text))
        yield runner, store


@examples(60)
@given(sent=st.lists(rounds, max_size=3))
def test_messages_of_a_joined_call_end_as_those_of_separate_calls(asking: Any, sent: Rounds) -> None:
    joined, separate = World(*asking), World(*asking)

    assert ends(joined, sent, at_once=8) == ends(separate, sent, at_once=1)
    joined.clear()
    separate.clear()


def ends(world: World, sent: Rounds, *, at_once: int) -> list[object]:
    """All answers, and all that Redis keeps in the end."""
    for name in IDS:
        world.broker(name)
    answered: list[Outcome[Any]] = []
    records, topic = world.records, world.topic
    for claimed, said, acted, lost in sent:
        schedules = [records.schedule(replace(draft, topic=topic), claim) for draft, claim in claimed]
        outcomes = outcomes_of(world, schedules, at_once)
        created = [one.found for one in outcomes if one.verdict == "created"]
        confirmations = [
            records.confirm(record, ready=ready, direct=direct, answer_by_ms=answer_by_ms, envelope=envelope)
            for record, (ready, direct, answer_by_ms, envelope) in zip(created, said, strict=False)
        ]
        answered += [*outcomes, *outcomes_of(world, confirmations, at_once)]
        answered += outcomes_of(world, [act(records, replace(copy, topic=topic)) for act, copy in acted], at_once)
        for name in sorted(lost):
            world.lose(name)
    kept = [world.kept(name) for name in IDS]
    apart = world.command("MGET", *(world.records.keys.record(world.topic, name)[1] for name in IDS))
    return [[without_topic(one) for one in found] for found in (answered, kept)] + [apart]


def outcomes_of(world: World, calls: Sequence[Call[Any]], at_once: int) -> list[Outcome[Any]]:
    outcomes: list[Outcome[Any]] = []
    for start in range(0, len(calls), at_once):
        outcomes += world.run(calls[start : start + at_once])
    return outcomes


def without_topic(one: Any) -> Any:
    return replace(one, record=one.record and replace(one.record, topic=""))
