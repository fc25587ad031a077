"""Tests that a process that dies between two steps of a call loses no message, delivers none early, and revives
none."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bridge.model.message import CopyKind, Envelope, State
from bridge.model.values import IfExists
from tests.fault.api import now_ms
from tests.inside.crash import (
    ABSENCE_MS,
    DyingAt,
    after,
    change,
    comes_once,
    dies_in,
    draft,
    dying,
    of_kind,
    pull,
    restarted,
    send,
)
from tests.inside.stage import Stage

MADE_DELAY_MS = 4_000  # longer than a send may last, so the id is not claimed


@pytest.mark.parametrize(
    ("name", "dying_at"),
    [("claimed", after("schedule")), ("published", of_kind(CopyKind.CHECKED)), ("confirmed", after("confirm"))],
)
async def test_a_crash_in_a_send_leaves_one_message_once_it_is_sent_again(
    stage: Stage, name: str, dying_at: DyingAt
) -> None:
    topic, what = f"send-{name}", draft(f"send-{name}", delay_ms=400)
    not_before_ms = now_ms() + 400
    async with dying(stage) as (mortal, service):
        dying_at(mortal)
        await dies_in(mortal, service.sending.send(what))
    async with restarted(stage) as service:
        await send(service, what)
        await comes_once(service, topic, not_before_ms=not_before_ms)


@pytest.mark.parametrize(("name", "dying_at"), [("published", of_kind(CopyKind.CHECKED)), ("entered", after("enter"))])
async def test_a_crash_in_a_send_without_an_id_leaves_one_message(stage: Stage, name: str, dying_at: DyingAt) -> None:
    topic = f"made-{name}"
    async with dying(stage, broker_timeout=1_000, store_timeout=1_000) as (mortal, service):
        await send(service, draft(topic, message_id="first", delay_ms=3_600_000))
        not_before_ms = now_ms() + MADE_DELAY_MS
        dying_at(mortal)
        await dies_in(mortal, service.sending.send(draft(topic, message_id="", delay_ms=MADE_DELAY_MS)))
    async with restarted(stage) as service:
        await comes_once(service, topic, not_before_ms=not_before_ms, message_id=None)


@pytest.mark.parametrize(("name", "dying_at"), [("published", of_kind(CopyKind.LEASE)), ("leased", after("lease"))])
async def test_a_crash_in_a_pull_redelivers_the_message(stage: Stage, name: str, dying_at: DyingAt) -> None:
    topic = f"pull-{name}"
    async with dying(stage) as (mortal, service):
        await send(service, draft(topic))
        dying_at(mortal)
        pulled_ms = now_ms()
        await dies_in(mortal, pull(service, topic, lease_ms=1_000))
    async with restarted(stage) as service:
        lease_ends_ms = pulled_ms + 1_000 if name == "leased" else 0
        await comes_once(service, topic, not_before_ms=lease_ends_ms)


@pytest.mark.parametrize(("name", "dying_at"), [("published", of_kind(CopyKind.RETRY)), ("named", after("nack"))])
async def test_a_crash_in_a_nack_redelivers_the_message(stage: Stage, name: str, dying_at: DyingAt) -> None:
    topic = f"nack-{name}"
    async with dying(stage) as (mortal, service):
        await send(service, draft(topic))
        await pull(service, topic, lease_ms=ABSENCE_MS)  # so that its copy comes before the test ends
        dying_at(mortal)
        nacked_ms = now_ms()
        nack = service.settling.nack(topic, "it", receipt=None, delay_ms=300, reason=None)
        await dies_in(mortal, nack)
    async with restarted(stage) as service:
        await comes_once(service, topic, not_before_ms=nacked_ms + 300)


@pytest.mark.parametrize(("name", "dying_at"), [("published", of_kind(CopyKind.MOVE)), ("named", after("change"))])
async def test_a_crash_in_a_move_leaves_the_message_due_then_or_as_it_was(
    stage: Stage, name: str, dying_at: DyingAt
) -> None:
    topic = f"move-{name}"
    async with dying(stage) as (mortal, service):
        due_ms = await send(service, draft(topic, delay_ms=3_000))
        dying_at(mortal)
        moved_ms = now_ms()
        await dies_in(mortal, change(service, topic, delay_ms=500))
    async with restarted(stage) as service:
        await comes_once(service, topic, not_before_ms=moved_ms + 500 if name == "named" else due_ms)


@pytest.mark.parametrize("name", ["published", "named"])
@pytest.mark.parametrize("how", ["replace", "extend", "change"])
async def test_a_crash_in_a_change_of_the_body_leaves_the_former_or_the_new_one(
    stage: Stage, how: str, name: str
) -> None:
    """After a crash between the two steps, the former message is delivered at its moment, and its ack ends both."""
    topic, former_ms, new_ms = f"{how}-{name}", 3_000, 3_500
    later = replace(
        draft(topic, delay_ms=new_ms),
        envelope=Envelope(body=b'"new"'),
        if_exists=IfExists.EXTEND if how == "extend" else IfExists.REPLACE,
        max_wait_ms=60_000,
    )
    async with dying(stage) as (mortal, service):
        due_ms = await send(service, draft(topic, delay_ms=former_ms))
        dying_at = after("replace" if how == "replace" else "change") if name == "named" else of_kind(CopyKind.MOVE)
        dying_at(mortal)
        began_ms = now_ms()
        calling = change(service, topic, envelope=later.envelope) if how == "change" else service.upserting.send(later)
        await dies_in(mortal, calling)
    async with restarted(stage) as service:
        is_new = name == "named"
        not_before_ms = began_ms + new_ms if is_new and how != "change" else due_ms
        await comes_once(service, topic, not_before_ms=not_before_ms, body=b'"new"' if is_new else b'"it"')


async def test_a_crash_in_a_replay_leaves_the_dead_letter_to_be_replayed(stage: Stage) -> None:
    topic = "replay-published"
    async with dying(stage) as (mortal, service):
        await send(service, draft(topic, max_retry=0))
        await pull(service, topic)
        await service.settling.nack(topic, "it", receipt=None, delay_ms=0, reason="no use")
        of_kind(CopyKind.RETRY)(mortal)
        await dies_in(mortal, service.dead.replay(topic, "it"))
    async with restarted(stage) as service:
        assert (await service.dead.replay(topic, "it")).record.state is State.WAITING
        await comes_once(service, topic, not_before_ms=0, most_attempts=1)
