"""Tests that names are readable and never collide."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology import plan
from topology.former import FormerNames
from topology.names import TOPIC, Names
from topology.wheel import HANDS


def test_names_of_a_topology_are_as_documented() -> None:
    names = Names()

    assert names.entry == "delay"
    assert names.hand("tens-of-days") == "delay.tens-of-days"
    assert names.slot("hundreds-of-days", 3) == "delay.300d"
    assert names.slot("minutes", 30) == "delay.000d-00h-30m"
    assert names.slot("tenths", 2) == "delay.000d-00h-00m-00.2s"
    assert (names.due, names.checkpoint, names.ready_exchange) == ("delay.due", "delay.checkpoint", "delay.ready")
    assert (names.done, names.acks, names.refused) == ("delay.done", "delay.acks", "delay.refused")
    assert (names.ready_queue("orders"), names.dead_queue("shop/orders")) == ("ready.orders", "dead.shop/orders")


@pytest.mark.parametrize("names", [Names(), Names(lanes=12, lane=11), Names(prefix="a.b-c")])
def test_slots_sorted_as_text_are_in_the_order_of_their_waits(names: Names) -> None:
    waits_ms = {names.slot(hand.name, value): value * hand.unit_ms for hand in HANDS for value in hand.values}

    assert sorted(waits_ms) == sorted(waits_ms, key=waits_ms.__getitem__)
    assert len(waits_ms) == 177


def test_other_queues_of_the_wheel_sort_behind_its_slots() -> None:
    core, slots = plan.core(Names(lanes=2)), plan.slots(Names())

    assert min(queue.name for queue in core.queues) > max(queue.name for queue in slots.queues)


def test_slots_of_an_earlier_version_keep_their_names() -> None:
    former = FormerNames.of(Names(lanes=3, lane=2))

    assert (former.slot("tens-of-days", 3), former.slot("tenths", 2)) == ("delay.lane2.30d", "delay.lane2.200ms")
    assert former.in_lane(0).slot("minutes", 30) == "delay.30m"
    assert [queue.name for queue in plan.core(Names(lanes=3)).barring] == ["delay.900ms"]


def test_no_two_objects_of_a_topology_share_a_name() -> None:
    whole = plan.whole(Names(), checked=["orders", "checkpoint"], direct=["due", "000d-00h-30m"])

    assert len({queue.name for queue in whole.every_queue}) == len(whole.every_queue) == 177 + 7 + 8
    assert len({exchange.name for exchange in whole.exchanges}) == len(whole.exchanges) == 15


@given(st.from_regex(r"[A-Za-z0-9_.-]{1,100}(/[A-Za-z0-9_.-]{1,100})?", fullmatch=True))
def test_topic_is_read_from_a_queue_name(topic: str) -> None:
    names = Names()

    assert names.topic_of_ready_queue(names.ready_queue(topic)) == topic
    assert names.topic_of_dead_queue(names.dead_queue(topic)) == topic
    assert names.topic_of_ready_queue(names.dead_queue(topic)) is None


@pytest.mark.parametrize("name", ["ready.", "ready", "orders", "delay.ready", "ready.a/b/c", "ready.#", ""])
def test_other_queue_has_no_topic(name: str) -> None:
    assert Names().topic_of_ready_queue(name) is None


@pytest.mark.parametrize(
    ("prefix", "ready", "dead"),
    [("delay", "q.", "q."), ("delay", "q.", "q.dead."), ("delay", "delay.ready.", "dead.")],
)
def test_prefixes_that_could_collide_are_refused(prefix: str, ready: str, dead: str) -> None:
    with pytest.raises(ValueError, match="no prefix may begin with another"):
        Names(prefix=prefix, ready=ready, dead=dead)


@pytest.mark.parametrize(
    ("prefix", "ready", "dead"),
    [
        ("", "ready.", "dead."),
        ("delay", "", "dead."),
        ("amq.delay", "ready.", "dead."),
        ("de#lay", "ready.", "dead."),
        ("delay", "ready/", "dead."),
    ],
)
def test_unusable_prefixes_are_refused(prefix: str, ready: str, dead: str) -> None:
    with pytest.raises(ValueError, match="can't start a name"):
        Names(prefix=prefix, ready=ready, dead=dead)


def test_exchange_for_the_publishers_of_another_one_names_it() -> None:
    names = Names(prefix="d")

    assert (names.ingress, names.ingress_of("shop.eu")) == ("d.in", "d.in.shop.eu")
    assert names.delayed_exchange("d.in.shop.eu") == "shop.eu"
    assert [names.delayed_exchange(other) for other in ("d.in", "d.in.", "shop", "d.done")] == [None] * 4
    assert len(names.ingress_of("a" * 250)) == 255


@pytest.mark.parametrize("exchange", ["", "a" * 251, "ä" * 126])
def test_exchange_without_room_for_its_name_is_refused(exchange: str) -> None:
    with pytest.raises(ValueError, match="at most 255 bytes"):
        Names(prefix="d").ingress_of(exchange)


@pytest.mark.parametrize("exchange", ["shop", "shop.eu-1", "a" * 100, "a" * 101, "shop/eu", "käse", "!"])
def test_each_exchange_has_a_topic(exchange: str) -> None:
    topic = Names().topic_of_exchange(exchange)

    assert TOPIC.fullmatch(topic)
    assert topic.startswith("exchanges/")
    assert (topic == f"exchanges/{exchange}") == (TOPIC.fullmatch(f"exchanges/{exchange}") is not None)


def test_own_exchanges_are_known() -> None:
    whole, names = plan.whole(Names(lanes=3), checked=["orders"]), Names()

    assert all(names.owns_exchange(exchange.name) for exchange in whole.exchanges)
    assert names.owns_exchange(names.ingress_of("shop"))
    assert not any(map(names.owns_exchange, ("", "shop", "delayed", "amq.topic", "ready.orders")))
