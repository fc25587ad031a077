"""Tests which kept bodies the audit reads from Redis, and how many bytes of them at once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import pytest_asyncio

from bridge.broker.publications import Publication
from bridge.loops.audit import Audit, Overdue
from bridge.model.message import Envelope
from bridge.model.values import Draft
from bridge.service.reading.portions import PORTION_BYTES
from bridge.service.service import Service
from bridge.store.calls import Call
from bridge.store.messages.outcomes import Looked
from tests.forked_bridge import PATIENCE
from tests.inside.crash import draft, pull, send
from tests.inside.running import running
from tests.inside.stage import Stage
from tests.waiting import pause

BODY = b"x" * 1024 * 1024
IDS = [f"m-{number:02}" for number in range(12)]
GRACE_MS = 100


@pytest_asyncio.fixture(loop_scope="function")
async def service(stage: Stage) -> AsyncIterator[Service]:
    settings = {"keep_body_max": len(BODY), "audit_grace": GRACE_MS, "audit_every": 0, **PATIENCE}
    async with running(stage, **settings) as service:
        yield service


@pytest.fixture
def read(service: Service) -> list[int]:
    """The bytes of each answer that the loops get from Redis, without the index."""
    store, read = service.loops_context.store, []
    run = store.run

    async def noting(calls: Sequence[Call[Any]], until_s: float | None = None) -> list[Any]:
        answers = await run(calls, until_s)
        if calls and calls[0].script.of_record:
            read.append(sum(len(answer.packed) for answer in answers if isinstance(answer, Looked)))
        return answers

    store.run = noting  # type: ignore[method-assign]
    return read


def large(topic: str, message_id: str) -> Draft:
    return Draft(topic=topic, id=message_id, envelope=Envelope(body=BODY), delay_ms=500)


async def lose(service: Service, topic: str) -> None:
    """Sends the messages, and RabbitMQ gets none of them."""
    await send(service, draft(topic, message_id="first", delay_ms=3_600_000))
    publisher = service.context.broker.copy_publisher
    publish = publisher.publish

    async def nothing(publications: Sequence[Publication]) -> list[None]:
        return [None] * len(publications)

    publisher.publish = nothing  # type: ignore[assignment, method-assign]
    for message_id in IDS:
        await send(service, large(topic, message_id))
    publisher.publish = publish  # type: ignore[method-assign]


async def audited(audit: Audit, *, repair: bool) -> Sequence[Overdue]:
    """The findings of a whole pass, once no copy waits at the checkpoint."""
    while (audit_pass := await audit.run_once(repair=repair)) is None:
        await pause()
    assert audit_pass.last
    return audit_pass.found


async def test_audit_holds_at_most_8_mib_of_bodies_at_once(service: Service, read: list[int]) -> None:
    audit = Audit(service.loops_context)
    await lose(service, "lost")
    while len(found := await audited(audit, repair=False)) < len(IDS):
        await pause()
    assert all(message.body_kept for message in found)
    read.clear()
    repaired = await audited(audit, repair=True)
    assert {message.record.id: message.done for message in repaired} == dict.fromkeys(IDS, "resent")
    assert sum(read) >= len(IDS) * len(BODY) > PORTION_BYTES >= max(read)
    pulled = [leased.message for _ in IDS for leased in await pull(service, "lost")]
    assert sorted(message.record.id for message in pulled) == IDS
    assert all(message.envelope is not None and message.envelope.body == BODY for message in pulled)
    await service.settling.ack_ids("lost", IDS)  # the other test audits all topics


async def test_audit_reads_no_body_of_a_message_that_is_not_lost(service: Service, read: list[int]) -> None:
    topic, audit = "leased", Audit(service.loops_context)
    await send(service, large(topic, "it"))
    (leased,) = await pull(service, topic, lease_ms=60_000)
    while service.loops_context.store.clock.now_ms() < leased.message.record.due_ms + 2 * GRACE_MS:
        await pause()
    read.clear()
    assert await audited(audit, repair=True) == []
    assert read
    assert sum(read) < len(BODY)
