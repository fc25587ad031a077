"""Tests how deliveries are settled: after their steps, once each, and whatever fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from bridge.broker.publications import Route
from bridge.model.errors import Unavailable
from bridge.service.protocol.deliveries import Acked, Held, Put, Requeued, Settlement, Work, settle
from bridge.service.protocol.steps import Publish, Result, Step, Update, named
from bridge.service.protocol.succession import Succession
from bridge.store.messages.verdicts import LeaseVerdict
from tests.unit.service.protocol_servers import AWAY, REFUSED, UNNAMED, Servers, lease, publication, succeed


class Delivery:
    """The taken copy of one message. It is its own acknowledger, and its delivery tag is its id."""

    queue = "ready.orders"

    def __init__(self, servers: Servers, message_id: str) -> None:
        self._log, self.delivery_tag = servers.log, message_id
        self.message = self.acknowledger = self

    def ack(self, tags: list[str]) -> None:
        self._log.append("ack " + " ".join(tags))

    def requeue(self, tag: str | None = None) -> None:
        self._log.append(f"requeue {tag or self.delivery_tag}")


@dataclass
class Leasing:
    """Work that acknowledges a leased message, holds an expired one, and puts any other into its ready queue."""

    id: str
    step: Step[LeaseVerdict] = field(init=False)

    def __post_init__(self) -> None:
        self.step = succeed(self.id)

    def after(self, result: Result[LeaseVerdict]) -> Settlement[LeaseVerdict] | Work[LeaseVerdict]:
        if not isinstance(result, Unavailable):
            match named(result).verdict:
                case LeaseVerdict.LEASED:
                    return Acked(result)
                case LeaseVerdict.EXPIRED:
                    return Held(result)
        return Put(Publish(publication(f"back-{self.id}", Route.READY)), result)


@pytest.fixture
def servers() -> Servers:
    return Servers()


async def settled(servers: Servers, *works: Work[Any]) -> list[Settlement[Any]]:
    """Settles a delivery for each work. Their ids are a, b and so on."""
    deliveries: Sequence[Any] = [Delivery(servers, chr(ord("a") + at)) for at in range(len(works))]
    succession = Succession(servers, servers)  # type: ignore[arg-type]
    return await settle(succession, deliveries, works)


async def test_a_batch_is_published_then_named_then_acknowledged_together(servers: Servers) -> None:
    results = await settled(servers, Leasing("a"), Leasing("b"))

    assert servers.log == ["publish wheel:a wheel:b", "name a b", "ack a", "ack b"]
    assert [type(one) for one in results] == [Acked, Acked]


async def test_further_work_comes_before_the_acknowledgement(servers: Servers) -> None:
    servers.answers = [["hold", "leased", "ghost"]]
    first, second, third = await settled(servers, Leasing("a"), Leasing("b"), Leasing("c"))

    assert servers.log[2:] == ["ack b", "publish ready:back-a ready:back-c", "ack a", "ack c"]
    assert [type(one) for one in (first, second, third)] == [Acked, Acked, Acked]
    assert named(first.result).verdict is LeaseVerdict.HOLD


@pytest.mark.parametrize("error", [AWAY, REFUSED, UNNAMED])
async def test_a_delivery_is_put_back_if_its_step_fails(servers: Servers, error: Unavailable) -> None:
    servers.refused = {"a"} if error is REFUSED else set()
    servers.answers = [["defer"] if error is UNNAMED else AWAY]
    (settlement,) = await settled(servers, Leasing("a"))

    assert settlement == Acked(error)
    assert servers.log[-2:] == ["publish ready:back-a", "ack a"]


async def test_a_delivery_is_requeued_if_it_can_not_be_put_back(servers: Servers) -> None:
    servers.refused = {"a", "back-a"}
    refused, other = await settled(servers, Leasing("a"), Leasing("b"))

    assert refused == Requeued(REFUSED)
    assert isinstance(other, Acked)
    assert servers.log == ["publish wheel:a wheel:b", "name b", "ack b", "publish ready:back-a", "requeue a"]


async def test_a_held_delivery_is_not_settled(servers: Servers) -> None:
    servers.answers = [["expired", "leased"]]
    held, _ = await settled(servers, Leasing("a"), Leasing("b"))

    assert isinstance(held, Held)
    assert servers.log[2:] == ["ack b"]


async def test_a_fault_of_this_program_requeues_what_is_not_settled(servers: Servers) -> None:
    servers.answers = [["expired", "hold", "leased"], ValueError("a fault of ours")]

    class Twice(Leasing):
        def after(self, result: Result[LeaseVerdict]) -> Settlement[LeaseVerdict] | Work[LeaseVerdict]:
            return Put(Update(lease(self.id)))

    with pytest.raises(ValueError, match="a fault of ours"):
        await settled(servers, Leasing("a"), Twice("b"), Leasing("c"))
    assert servers.log[2:] == ["ack c", "name b", "requeue a", "requeue b"]


async def test_a_fault_of_an_acknowledgement_leaves_no_other_delivery_unsettled(servers: Servers) -> None:
    servers.refused = {"b", "back-b"}

    class Again(Leasing):
        def after(self, result: Result[LeaseVerdict]) -> Settlement[LeaseVerdict]:
            return Requeued(result) if isinstance(result, Unavailable) else Acked(result)

    class Broken(Delivery):
        def ack(self, tags: list[str]) -> None:
            raise ValueError("a fault of ours")

    deliveries: Sequence[Any] = [Broken(servers, "a"), Delivery(servers, "b")]
    with pytest.raises(ValueError, match="a fault of ours"):
        await settle(Succession(servers, servers), deliveries, [Again("a"), Again("b")])  # type: ignore[arg-type]
    assert servers.log[-1] == "requeue b"
