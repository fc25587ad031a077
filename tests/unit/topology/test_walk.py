"""Tests every delay by a walk through the plan, as the broker would route it."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.unit.topology.walker import End, Walker, matches
from topology import plan
from topology.names import Names
from topology.wheel import DAY_MS, HANDS, MAX_DELAY_MS, Entry, Slot, route

NAMES = Names()
PLAN = plan.whole(NAMES, checked=["orders", "eu"], direct=["mails", "eu.mails", "shop/mails"])
WALKER = Walker(PLAN)
SLOTS: list[Slot] = [(hand.name, value) for hand in HANDS for value in hand.values]
PLACE = {NAMES.slot(hand.name, value): place for place, hand in enumerate(HANDS) for value in hand.values}

delays_ms = st.integers(0, MAX_DELAY_MS // 100).map(lambda tenths: tenths * 100)
sparse_delays_ms = (
    st.tuples(*(st.just(0) | st.sampled_from([0, *hand.values]) for hand in HANDS))
    .map(lambda values: sum(value * hand.unit_ms for value, hand in zip(values, HANDS, strict=True)))
    .filter(lambda delay_ms: delay_ms <= MAX_DELAY_MS)
)


@pytest.mark.parametrize(
    ("pattern", "key", "answer"),
    [
        ("*.0.#", "1.0.x", True),
        ("*.0.#", "1.0", True),
        ("*.0.#", "0.x", False),
        ("*.0.#", "1.00.x", False),
        ("#", "", True),
        ("#", "a.b", True),
        ("*", "a", True),
        ("*", "a.b", False),
        ("#.b", "b", True),
        ("#.b", "a.c.b", True),
        ("#.b", "a.b.c", False),
        ("a.#.*", "a", False),
        ("a.#.*", "a.b", True),
        ("a.*.b", "a..b", True),
    ],
)
def test_walker_matches_patterns_as_a_topic_exchange(pattern: str, key: str, answer: bool) -> None:
    assert matches(pattern, key) is answer


def only_end(taken: Entry, walker: Walker = WALKER) -> End:
    ends = walker.walk(taken.exchange, taken.routing_key)
    assert len(ends) == 1, f"{taken.routing_key} reached {len(ends)} queues: {ends}"
    return ends[0]


@given(
    delay_ms=delays_ms | sparse_delays_ms, topic=st.sampled_from(["orders", "eu", "eu.orders", "0.0.mails", "unknown"])
)
@example(delay_ms=0, topic="orders")
@example(delay_ms=100, topic="orders")
@example(delay_ms=59_900, topic="orders")
@example(delay_ms=60_000, topic="orders")
@example(delay_ms=DAY_MS - 100, topic="orders")
@example(delay_ms=MAX_DELAY_MS - 100, topic="orders")
@example(delay_ms=MAX_DELAY_MS, topic="orders")
def test_delay_reaches_the_checkpoint_once_and_after_exactly_that_time(delay_ms: int, topic: str) -> None:
    taken = route(NAMES, delay_ms, topic)
    end = only_end(taken)

    assert (end.queue, end.after_ms) == ("delay.checkpoint", delay_ms)
    assert end.waited_in == tuple(NAMES.slot(*slot) for slot in taken.slots)
    assert all(PLACE[slower] < PLACE[faster] for slower, faster in pairwise(end.waited_in))


@given(delay_ms=delays_ms | sparse_delays_ms, topic=st.sampled_from(["mails", "eu.mails", "shop/mails"]))
@example(delay_ms=0, topic="mails")
@example(delay_ms=MAX_DELAY_MS, topic="mails")
def test_direct_topic_bypasses_the_checkpoint_except_for_leases(delay_ms: int, topic: str) -> None:
    plain, lease = only_end(route(NAMES, delay_ms, topic)), only_end(route(NAMES, delay_ms, topic, "lease"))

    assert (plain.queue, plain.after_ms) == (f"ready.{topic}", delay_ms)
    assert (lease.queue, lease.after_ms) == ("delay.checkpoint", delay_ms)


@given(delay_ms=delays_ms | sparse_delays_ms)
def test_entry_exchange_routes_to_the_same_queues(delay_ms: int) -> None:
    taken = route(NAMES, delay_ms, "orders")

    assert only_end(replace(taken, exchange=NAMES.entry)) == only_end(taken)


@pytest.mark.parametrize("missing", SLOTS, ids=lambda slot: NAMES.slot(*slot))
def test_message_without_its_slot_falls_through_to_the_checkpoint(missing: Slot) -> None:
    place = [hand.name for hand in HANDS].index(missing[0])
    gone = NAMES.slot(*missing)
    walker = Walker(replace(PLAN, queues=tuple(queue for queue in PLAN.queues if queue.name != gone)))
    slower_ms = sum(hand.unit_ms for hand in HANDS[:place])
    faster_ms = sum(hand.unit_ms for hand in HANDS[place + 1 :])
    delay_ms = slower_ms + missing[1] * HANDS[place].unit_ms + faster_ms

    for topic in ("orders", "mails"):
        end = only_end(route(NAMES, delay_ms, topic), walker)
        assert (end.queue, end.after_ms) == ("delay.checkpoint", slower_ms)
        assert gone in (NAMES.slot(*slot) for slot in route(NAMES, delay_ms, topic).slots)


@given(key=st.text(st.sampled_from("0123456789.*#!ab"), max_size=30))
@example(key="")
@example(key="0.0.0.0.0.0.0")
@example(key="0.0.0.24.0.0.0.orders")
@example(key="9.9.9.23.59.59.9.orders")
def test_any_key_a_client_writes_reaches_one_queue_once(key: str) -> None:
    ends = WALKER.walk(NAMES.entry, key)

    assert len(ends) == 1


@pytest.mark.parametrize(
    "key", ["", "orders", "5", "5.orders", "1.hello", "9.orders.eu", "5.0.0.0.0.0.0", "9.9.9.23.59.59.orders"]
)
def test_key_without_seven_digits_and_a_topic_reaches_the_checkpoint_at_once(key: str) -> None:
    (end,) = WALKER.walk(NAMES.entry, key)

    assert (end.queue, end.after_ms) == ("delay.checkpoint", 0)


def test_message_that_leaves_a_ready_queue_reaches_the_checkpoint_with_its_topic() -> None:
    for queue in PLAN.queues:
        if topic := NAMES.topic_of_ready_queue(queue.name):
            assert WALKER.route("delay.ready", topic) == [queue.name]
            assert WALKER.route(str(queue.arguments["x-dead-letter-exchange"]), topic) == ["delay.checkpoint"]


def test_every_queue_keeps_its_messages() -> None:
    for queue in PLAN.queues:
        arguments = dict(queue.arguments)
        assert arguments["x-queue-type"] == "quorum"
        if queue.name in NAMES.probes:
            assert arguments["x-max-length"] == 1  # nobody needs its messages, and it must not grow
            continue
        assert not {"x-expires", "x-max-length", "x-max-length-bytes", "x-dead-letter-routing-key"} & set(arguments)
        if "x-dead-letter-exchange" in arguments:
            assert arguments["x-dead-letter-strategy"] == "at-least-once"
            assert arguments["x-overflow"] == "reject-publish"
        else:
            assert "x-message-ttl" not in arguments
            assert arguments["x-delivery-limit"] == 1_000_000_000


def test_every_dead_letter_exchange_is_in_the_plan() -> None:
    known = {exchange.name for exchange in PLAN.exchanges}

    assert {
        str(q.arguments["x-dead-letter-exchange"]) for q in PLAN.queues if "x-dead-letter-exchange" in q.arguments
    } <= known
    assert {exchange.alternate for exchange in PLAN.exchanges if exchange.alternate} <= known


@pytest.mark.parametrize(("hand", "value"), [("minutes", 0), ("minutes", 60), ("tenths", 10), ("weeks", 1)])
def test_unknown_slot_is_refused(hand: str, value: int) -> None:
    with pytest.raises(ValueError, match="no slot"):
        plan.slot(NAMES, hand, value)


@pytest.mark.parametrize("topic", ["", "*", "a#", "!lease.a", "a/b/c", "two words", "t" * 101])
def test_invalid_topic_is_refused_by_the_plan(topic: str) -> None:
    with pytest.raises(ValueError, match="is not a topic"):
        plan.topic(NAMES, topic)
