"""Tests the order in which steps are carried out, and what follows each failure."""

from __future__ import annotations

import pytest

from bridge.broker.publications import Route
from bridge.model.errors import BrokerUnavailable
from bridge.service.protocol.steps import Nothing, Publish, Step, Update, named
from bridge.service.protocol.succession import Succession
from bridge.store.messages.verdicts import LeaseVerdict
from tests.unit.service.protocol_servers import AWAY, REFUSED, UNNAMED, Servers, lease, publication, succeed


@pytest.fixture
def servers() -> Servers:
    return Servers()


@pytest.fixture
def succession(servers: Servers) -> Succession:
    return Succession(servers, servers)  # type: ignore[arg-type]


async def test_a_batch_is_published_and_then_named_together(servers: Servers, succession: Succession) -> None:
    results = await succession.perform([succeed("a"), succeed("b")])

    assert servers.log == ["publish wheel:a wheel:b", "name a b"]
    assert [named(result).verdict for result in results] == [LeaseVerdict.LEASED, LeaseVerdict.LEASED]


async def test_each_kind_of_step_asks_only_what_it_needs(servers: Servers, succession: Succession) -> None:
    steps: list[Step[LeaseVerdict]] = [
        Nothing(),
        Publish(publication("a", Route.READY)),
        Update(lease("b")),
        succeed("c"),
    ]
    nothing, published, *others = await succession.perform(steps)

    assert (nothing, published) == (None, None)
    assert [named(result).verdict for result in others] == [LeaseVerdict.LEASED, LeaseVerdict.LEASED]
    assert servers.log == ["publish ready:a wheel:c", "name b c"]


async def test_a_step_that_changes_nothing_asks_no_server(servers: Servers, succession: Succession) -> None:
    assert await succession.perform([Nothing()]) == [None]
    assert servers.log == []


async def test_copies_are_announced_together_before_the_first_is_published(
    servers: Servers, succession: Succession
) -> None:
    servers.answers = [["announced", "unknown"]]
    await succession.perform([succeed("a", announced=True), succeed("b"), succeed("c", announced=True)])

    assert servers.log == ["announce a c", "publish wheel:a wheel:b wheel:c", "name a b c"]


async def test_a_copy_that_was_not_announced_is_not_published(servers: Servers, succession: Succession) -> None:
    servers.answers = [AWAY]
    results = await succession.perform([succeed("a", announced=True), succeed("b")])

    assert results[0] is AWAY
    assert named(results[1]).verdict is LeaseVerdict.LEASED
    assert servers.log == ["announce a", "publish wheel:b", "name b"]


async def test_a_copy_that_was_not_published_is_never_named(servers: Servers, succession: Succession) -> None:
    servers.refused = {"a"}
    refused, outcome = await succession.perform([succeed("a"), succeed("b")])

    assert refused is REFUSED
    assert named(outcome).verdict is LeaseVerdict.LEASED
    assert servers.log == ["publish wheel:a wheel:b", "name b"]


async def test_no_step_is_named_if_redis_does_not_answer(servers: Servers, succession: Succession) -> None:
    servers.answers = [AWAY]

    steps: list[Step[LeaseVerdict]] = [succeed("a"), Update(lease("b"))]
    assert await succession.perform(steps) == [AWAY, AWAY]
    assert servers.log == ["publish wheel:a", "name a b"]


async def test_what_no_rule_names_holds_up_no_other(servers: Servers, succession: Succession) -> None:
    servers.answers = [["defer", "leased"]]
    results = await succession.perform([succeed("a"), succeed("b")])

    assert results[0] is UNNAMED
    assert named(results[1]).verdict is LeaseVerdict.LEASED


async def test_a_copy_ahead_of_its_record_is_asked_about_again(servers: Servers, succession: Succession) -> None:
    servers.answers = [["leased", "ahead"], ["ahead"], ["leased"]]
    results = await succession.perform([succeed("a"), succeed("b")])

    assert [named(result).verdict for result in results] == [LeaseVerdict.LEASED, LeaseVerdict.LEASED]
    assert servers.log[1:] == ["name a b", "name b", "name b"]


async def test_perform_one_raises_the_error_of_its_step(servers: Servers, succession: Succession) -> None:
    servers.refused = {"a"}

    with pytest.raises(BrokerUnavailable, match="refused"):
        await succession.perform_one(succeed("a"))
