"""Tests decisions around a burst: the stay in the wheel, repeated ids, and what follows a refusal."""

from typing import cast

import pytest

from bridge.broker.client.connection import BrokerConnection
from bridge.broker.client.publisher import Outgoing, Publisher, _without_repeated_ids
from bridge.broker.copies.properties import Properties
from bridge.broker.publications import parked_ms
from bridge.broker.unconfirmed import Unconfirmed
from bridge.model.errors import BrokerUnavailable, NotPublished, Unpublishable
from topology.names import Names


@pytest.mark.parametrize(
    ("left_ms", "exact", "stay_ms"),
    [
        (0, True, 0),
        (99.9, True, 0),
        (100, True, 0),
        (199.9, True, 0),
        (200, True, 100),
        (30_000, True, 29_900),
        (30_050.5, True, 29_900),
        (-5, True, 0),
        (0, False, 0),
        (0.1, False, 100),
        (100, False, 100),
        (30_000, False, 30_000),
        (30_000.1, False, 30_100),
        (-5, False, 0),
        (999 * 86_400_000 + 0.5, False, 999 * 86_400_000),
    ],
)
def test_exact_delay_ends_short_of_due_and_other_delays_are_rounded_up(
    left_ms: float, exact: bool, stay_ms: int
) -> None:
    assert parked_ms(left_ms, exact=exact) == stay_ms


@pytest.mark.parametrize(
    ("ids", "parts"),
    [
        ("", [[]]),
        ("a", [[0]]),
        ("abc", [[0, 1, 2]]),
        ("aab", [[0, 2], [1]]),
        ("abab", [[0, 1], [2, 3]]),
        ("aaa", [[0], [1], [2]]),
        ("baacab", [[0, 1, 3], [2, 5], [4]]),
    ],
)
def test_burst_is_split_so_that_no_id_is_in_a_part_twice(ids: str, parts: list[list[int]]) -> None:
    messages = [Outgoing("", "q", Properties(message_id=message_id), b"") for message_id in ids]

    assert _without_repeated_ids(messages) == parts


async def test_message_of_a_refused_burst_may_be_published_whatever_a_later_burst_says() -> None:
    refused, busy = Unpublishable("406"), NotPublished("all channels are busy")
    bursts: list[list[str]] = []

    class Refusing(Publisher):
        """RabbitMQ confirms `a`, closes the channel over `poison`, and has no channel for `d` alone."""

        def __init__(self) -> None:
            self._answers = Unconfirmed(Names())

        async def _burst(self, messages: list[Outgoing]) -> list[BrokerUnavailable | None]:
            ids = [message.routing_key for message in messages]
            bursts.append(ids)
            if "poison" in ids:
                return [None if one == "a" else refused for one in ids]
            return [busy if one == "d" else None for one in ids]

    messages = [Outgoing("", one, Properties(message_id=one), b"") for one in ("a", "b", "poison", "c", "d")]
    errors = await Refusing().publish(messages)

    assert bursts == [["a", "b", "poison", "c", "d"], ["b", "poison"], ["b"], ["poison"], ["c", "d"]]
    assert errors[:4] == [None, None, refused, None]
    assert type(errors[4]) is BrokerUnavailable


async def test_messages_to_a_queue_that_does_not_confirm_share_no_burst_with_others() -> None:
    bursts: list[list[str]] = []

    class Slow(Publisher):
        async def _burst(self, messages: list[Outgoing]) -> list[BrokerUnavailable | None]:
            ids = [message.properties.message_id or "" for message in messages]
            bursts.append(ids)
            return [BrokerUnavailable("late") if one.routing_key == "hung" else None for one in messages]

    answers = Unconfirmed(Names())
    one = Slow(cast(BrokerConnection, None), timeout_ms=1_000, answers=answers)
    messages = [
        Outgoing("", queue, Properties(message_id=message_id), b"")
        for message_id, queue in (("a", "q"), ("b", "hung"), ("c", "q"), ("d", "hung"))
    ]
    answers.note(messages, await one.publish(messages))
    errors = await one.publish(messages)
    assert bursts == [["a", "b", "c", "d"], ["a", "c"], ["b", "d"]]
    assert [str(error) for error in errors] == ["None", "late", "None", "late"]
