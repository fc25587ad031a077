from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from bridge.broker import unconfirmed
from bridge.broker.client import publisher
from bridge.broker.client.connection import BrokerConnection
from bridge.broker.client.publisher import Outgoing, Publisher
from bridge.broker.copies.properties import Properties
from bridge.broker.unconfirmed import Unconfirmed
from bridge.model.errors import BrokerUnavailable, NotPublished, Unroutable
from topology.names import Names
from topology.wheel import route

NAMES = Names(prefix="p", lanes=2)
LATE = BrokerUnavailable("RabbitMQ did not answer in time")


def to(exchange: str, routing_key: str) -> Outgoing:
    return Outgoing(exchange, routing_key, Properties(message_id="m"), b"")


def parked(delay_ms: int, names: Names = NAMES) -> Outgoing:
    way = route(names, delay_ms, "t")
    return to(way.exchange, way.routing_key)


READY = to(NAMES.ready_exchange, "orders")
OTHER = to("", "p.refused")


@pytest.mark.parametrize(
    ("message", "queue"),
    [
        (READY, "ready.orders"),
        (to("", "dead.orders"), "dead.orders"),
        (parked(0), "p.checkpoint"),
        (parked(0, NAMES.in_lane(1)), "p.lane1.checkpoint"),
        (parked(300), "p.000d-00h-00m-00.3s"),
        (parked(7_300), "p.000d-00h-00m-07s"),
        (parked(7_300, NAMES.in_lane(1)), "p.lane1.000d-00h-00m-07s"),
        (parked(3_600_000), "p.000d-01h"),
        (to("shop", "orders.new"), None),
    ],
)
def test_queue_of_a_message_is_named_as_rabbitmq_names_it(message: Outgoing, queue: str | None) -> None:
    assert Unconfirmed(NAMES).queue_of(message) == queue


class Clock:
    now_s = 100.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in (unconfirmed, publisher):
        monkeypatch.setattr(module, "monotonic", lambda: clock.now_s)
    return clock


def says(found: Unconfirmed) -> list[str]:
    return [finding.says for finding in found.findings()]


def test_queue_is_named_until_it_confirms(clock: Clock) -> None:
    found = Unconfirmed(NAMES)
    found.note([READY, OTHER], [LATE, None])
    assert says(found) == [
        "queues did not confirm a message in the last minute: ready.orders (RabbitMQ did not answer in time)"
    ]
    found.note([OTHER], [None])
    assert says(found) != []
    found.note([READY], [None])
    assert says(found) == []


def test_queue_is_named_for_a_minute_after_its_last_failure(clock: Clock) -> None:
    found = Unconfirmed(NAMES)
    for _ in range(2):
        found.note([READY, OTHER], [LATE, None])
        clock.now_s += 59
        assert len(says(found)) == 1
    clock.now_s += 2
    assert says(found) == []


def test_no_queue_is_named_once_rabbitmq_as_a_whole_has_failed(clock: Clock) -> None:
    found = Unconfirmed(NAMES)
    found.note([READY, OTHER], [LATE, LATE])
    found.forget_all()
    assert says(found) == []


@pytest.mark.parametrize("error", [NotPublished("not written"), Unroutable("no queue")])
def test_error_that_is_no_silence_of_a_queue_names_none(clock: Clock, error: BrokerUnavailable) -> None:
    found = Unconfirmed(NAMES)
    found.note([READY, OTHER], [error, None])
    assert says(found) == []


def test_queue_of_another_application_is_not_named(clock: Clock) -> None:
    found = Unconfirmed(NAMES)
    found.note([to("shop", "orders.new")], [LATE])
    assert says(found) == []


def test_many_queues_are_one_finding_and_bounded(clock: Clock) -> None:
    found = Unconfirmed(NAMES)
    messages = [to(NAMES.ready_exchange, f"t{number}") for number in range(1_200)]
    found.note([OTHER, *messages], [None, *[LATE] * len(messages)])
    (text,) = says(found)
    assert "last minute: ready.t0, ready.t1, ready.t2 and at least 97 others (" in text


@pytest.mark.parametrize(
    ("waited_s", "others_s_ago", "blocked", "concerns"),
    [
        (2.0, 0.1, False, True),
        (2.0, 0.9, False, True),
        (2.0, 1.1, False, False),  # then RabbitMQ as a whole may be silent
        (2.0, 0.1, True, False),
        (2.3, 0.1, False, False),  # the process stood still
    ],
)
def test_late_burst_concerns_its_queues_only_if_others_were_confirmed_meanwhile(
    clock: Clock, waited_s: float, others_s_ago: float, blocked: bool, concerns: bool
) -> None:
    connection = cast(BrokerConnection, SimpleNamespace(is_blocked=blocked))
    one = Publisher(connection, timeout_ms=2_000, answers=Unconfirmed(NAMES))
    assert one._concerns_its_queues(clock.now_s - waited_s, clock.now_s - others_s_ago) is concerns
