"""Tests what a send does at and after the moment at which its caller is answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

from bridge.broker.publications import Publication, Route
from bridge.model.errors import SendUnderWay, StoreUnavailable
from bridge.model.message import CopyKind, Envelope, State
from bridge.model.values import Draft, Effective, Policy, Release, Sent
from bridge.service.sending.sending import Sending
from bridge.store.calls import Call
from bridge.store.keys import Keys
from bridge.store.messages.records import Records
from tests.effective import effective

VERDICTS = {
    "schedule": (b"created", State.UNCONFIRMED),
    "confirm": (b"confirmed", State.WAITING),
    "enter": (b"entered", State.WAITING),
    "withdraw": (b"withdrawn", State.UNCONFIRMED),
}
BUSY = (b"busy", State.UNCONFIRMED)


class Servers:
    """Accepts everything but sends of `busy` ids; while `refusing`, no script.

    `asked`: each script with its moment, and each publish.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[str, float | None]] = []
        self.published: list[Publication] = []
        self.policy = effective()
        self.busy: set[str] = set()
        self.refusing = False
        self.clock = SimpleNamespace(now_ms=lambda: 1_000, latest_ms=lambda: 1_001.5)

    def by_server(self, keys: Sequence[str]) -> list[list[int]]:
        return [list(range(len(keys)))]

    async def run(self, calls: Sequence[Call[Any]], until_s: float | None = None) -> list[Any]:
        self.asked += [(call.script.name, until_s) for call in calls]
        if self.refusing:
            raise StoreUnavailable("Redis refuses")
        verdicts = [BUSY if call.message_id in self.busy else VERDICTS[call.script.name] for call in calls]
        return [call.read(call, self.answer(*verdict)) for call, verdict in zip(calls, verdicts, strict=True)]

    async def run_each(self, calls: Sequence[Call[Any]], until_s: float | None = None) -> list[Any]:
        return await self.run(calls, until_s)

    def answer(self, verdict: bytes, state: State) -> list[Any]:
        return [verdict, 1_000, 0, int(state), *[3] * 12, b""]

    async def publish(self, publications: Sequence[Publication]) -> list[None]:
        self.asked += [("publish", None) for _ in publications]
        self.published += publications
        return [None] * len(publications)

    async def used(self, topic: str, maker: object = None) -> Effective:
        return self.policy

    def unsettled(self, topic: str) -> bool:
        return topic == "new"


@pytest.fixture
def servers() -> Servers:
    return Servers()


def sending(servers: Servers, *, answer_within_s: float) -> Sending:
    context: Any = SimpleNamespace(
        store=servers,
        records=Records(keys=Keys("delay"), retention_ms=1, tombstone_ms=2),
        broker=SimpleNamespace(copy_publisher=servers, declared=servers),
        topics=servers,
        settings=SimpleNamespace(keep_body_max=0, max_retry=3, answer_within_s=answer_within_s, checkpoint_prefetch=16),
    )
    return Sending(context)


def draft(message_id: str = "o-1") -> Draft:
    return Draft(topic="orders", id=message_id, envelope=Envelope(), delay_ms=1_000)


async def test_a_claim_takes_effect_only_while_its_caller_waits(servers: Servers) -> None:
    begun_s = monotonic()
    await sending(servers, answer_within_s=2).send(draft())

    assert [name for name, _ in servers.asked] == ["schedule", "publish", "confirm"]
    until_s = servers.asked[0][1]
    assert until_s is not None
    assert begun_s + 2 <= until_s <= monotonic() + 2


async def test_a_send_whose_caller_was_answered_is_withdrawn_and_not_published(servers: Servers) -> None:
    results = await sending(servers, answer_within_s=-1).send_many([draft(), draft("o-2")])

    assert [name for name, _ in servers.asked] == ["schedule", "schedule", "withdraw", "withdraw"]
    assert [str(result) for result in results] == ["Redis or RabbitMQ did not answer in time"] * 2
    assert all(isinstance(result, StoreUnavailable) for result in results)


@pytest.mark.parametrize(
    ("topic", "release", "ways"),
    [
        ("orders", Release.CHECKED, [(Route.READY, CopyKind.PLAIN)] * 3),
        ("new", Release.CHECKED, [(Route.WHEEL, CopyKind.CHECKED)] * 2 + [(Route.READY, CopyKind.PLAIN)]),
        ("new", Release.DIRECT, [(Route.WHEEL, CopyKind.CHECKED)] * 2 + [(Route.READY, CopyKind.PLAIN)]),
    ],
)
async def test_first_sends_to_a_new_topic_go_through_the_checkpoint(
    servers: Servers,
    monkeypatch: pytest.MonkeyPatch,
    topic: str,
    release: Release,
    ways: list[tuple[Route, CopyKind]],
) -> None:
    monkeypatch.setattr("bridge.service.sending.detours.WITHIN_S", 0.0)
    servers.policy = effective(Policy(release=release))
    drafts = [replace(draft(f"o-{number}"), topic=topic) for number in range(3)]
    await sending(servers, answer_within_s=2).send_many(drafts)
    assert [(one.route, one.kind) for one in servers.published] == ways


async def test_a_batch_waits_for_a_busy_id_as_long_as_a_single_send(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr("bridge.service.sending.sending.asyncio.sleep", pause)
    servers.busy = {"o-1"}
    with pytest.raises(SendUnderWay):
        await sending(servers, answer_within_s=2).send(draft())
    alone, pauses[:] = list(pauses), []
    results = await sending(servers, answer_within_s=2).send_many([draft("o-2"), *[draft()] * 999])

    assert sum(alone) < 2
    assert pauses == alone
    assert isinstance(results[0], Sent)
    assert all(isinstance(result, SendUnderWay) for result in results[1:])


async def test_a_batch_with_a_busy_id_is_answered_once_the_other_send_ends(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def end_other_send(_: float) -> None:
        servers.busy.clear()

    monkeypatch.setattr("bridge.service.sending.sending.asyncio.sleep", end_other_send)
    servers.busy = {"o-1", "o-3"}
    results = await sending(servers, answer_within_s=2).send_many([draft(), draft("o-2"), draft("o-3")])

    assert [isinstance(result, Sent) for result in results] == [True] * 3


async def test_send_without_an_id_is_entered_in_one_round_trip(servers: Servers) -> None:
    await sending(servers, answer_within_s=2).send(replace(draft(""), delay_ms=3_000))

    assert [name for name, _ in servers.asked] == ["publish", "enter"]
    (publication,) = servers.published
    assert (publication.copy.created_ms, publication.copy.due_ms) == (1_002, 4_002)


async def test_sends_without_an_id_claim_theirs_while_redis_refuses(servers: Servers) -> None:
    sends, without_id = sending(servers, answer_within_s=2), replace(draft(""), delay_ms=3_000)
    servers.refusing = True
    for _ in range(3):
        with pytest.raises(StoreUnavailable):
            await sends.send(without_id)
    servers.refusing = False
    for _ in range(2):
        await sends.send(without_id)

    names = [name for name, _ in servers.asked]
    assert names == ["publish", "enter", "schedule", "schedule", "schedule", "publish", "confirm", "publish", "enter"]
