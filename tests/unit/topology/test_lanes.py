"""Tests several wheels side by side: their names, the lane of an id, and the way of a delay through its lane."""

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.topology.walker import End, Walker
from topology import plan
from topology.deaths import deaths, left_of_key_ms
from topology.moves import Move, move
from topology.names import MOST_LANES, Names, lane_of
from topology.wheel import HANDS, MAX_DELAY_MS, route

ONE, THREE = Names(), Names(lanes=3)
WALKER = Walker(plan.whole(THREE, checked=["orders"], direct=["mails"]))
KEY = "0.0.0.0.30.5.2.orders"
IDS = {
    "numbers": [str(at) for at in range(10_000)],
    "padded": [f"order-{at:08}" for at in range(10_000)],
    "random": [f"{Random(at).getrandbits(128):032x}" for at in range(10_000)],
    "moments": [f"2026-11-20T12:{at // 60_000:02}:{at // 1_000 % 60:02}.{at % 1_000:03}Z" for at in range(10_000)],
}


@pytest.mark.parametrize(
    ("message_id", "lanes", "lane"),
    [
        ("order-1", 1, 0),
        ("order-1", 3, 1),
        ("order-2", 3, 0),
        ("order-3", 3, 2),
        ("order-1", 64, 47),
        ("01JD3ZQ4M3V0J5S4W8C9X2K7NB", 8, 6),
        ("", 3, 0),
    ],
)
def test_lane_of_an_id_is_the_same_in_every_process_and_version(message_id: str, lanes: int, lane: int) -> None:
    assert lane_of(message_id, lanes) == lane
    assert Names(lanes=lanes).lane_for(message_id).lane == lane


@pytest.mark.parametrize("lanes", [2, 3, 4, 8])
@pytest.mark.parametrize("kind", IDS)
def test_ids_of_every_kind_spread_evenly_over_lanes(kind: str, lanes: int) -> None:
    counts = Counter(lane_of(message_id, lanes) for message_id in IDS[kind])

    assert len(counts) == lanes
    assert all(abs(count * lanes / 10_000 - 1) < 0.06 for count in counts.values()), counts


def test_first_lane_has_the_names_of_a_single_wheel() -> None:
    assert plan.core(THREE.each_lane[0]) == plan.core(THREE)
    first, alone = plan.slot(THREE.each_lane[0], "minutes", 30), plan.slot(ONE, "minutes", 30)
    assert (first.queues[0].name, first) == ("delay.000d-00h-30m", alone)


def test_other_lanes_have_their_own_wheel_names_and_share_the_rest() -> None:
    second = THREE.each_lane[2]

    assert (second.entry, second.due, second.checkpoint) == ("delay.lane2", "delay.lane2.due", "delay.lane2.checkpoint")
    assert (second.hand("minutes"), second.slot("tenths", 2)) == (
        "delay.lane2.minutes",
        "delay.lane2.000d-00h-00m-00.2s",
    )
    for shared in ("ready_exchange", "returned", "done", "acks", "refused"):
        assert getattr(second, shared) == getattr(ONE, shared)
    assert ONE.in_lane(2) == second
    assert (second.ready_queue("orders"), second.dead_queue("orders")) == ("ready.orders", "dead.orders")


@pytest.mark.parametrize(("lanes", "lane"), [(0, 0), (1, 1), (3, -1), (MOST_LANES + 1, 0)])
def test_lane_out_of_range_is_refused(lanes: int, lane: int) -> None:
    with pytest.raises(ValueError, match="there are 1 to 64"):
        Names(lanes=lanes, lane=lane)


@pytest.mark.parametrize(
    ("prefix", "queue", "lane"),
    [
        ("delay", "delay.000d-00h-30m", 0),
        ("delay", "delay.lane2.000d-00h-30m", 2),
        ("delay", "delay.lane1.checkpoint", 1),
        ("delay", "delay.lane7.000d-00h-30m", 0),
        ("delay", "delay.acks", 0),
        ("delay", "delay2.lane2.000d-00h-30m", 0),
        ("delay", "ready.delay.lane2.000d-00h-30m", 0),
        ("lane", "lane2.000d-00h-30m", 0),
        ("lane", "lane.lane2.000d-00h-30m", 2),
    ],
)
def test_lane_is_read_from_a_queue_name(prefix: str, queue: str, lane: int) -> None:
    assert Names(prefix=prefix, lanes=3).lane_with(queue).lane == lane


def test_each_further_lane_adds_one_wheel_and_nothing_else() -> None:
    one, three = plan.whole(ONE, checked=["orders"]), plan.whole(THREE, checked=["orders"])

    assert (len(three.exchanges), len(three.every_queue)) == (15 + 2 * 10, 186 + 2 * 178)
    assert len({queue.name for queue in three.every_queue}) == len(three.every_queue)
    assert {*one.exchanges} < {*three.exchanges}
    assert {*one.bindings} < {*three.bindings}
    assert {queue.name: queue.arguments for queue in one.every_queue}.items() <= {
        queue.name: queue.arguments for queue in three.every_queue
    }.items()


def test_lanes_of_one_slot_are_declared_next_to_each_other() -> None:
    names = [queue.name for queue in plan.slots(THREE).queues]

    assert names[:4] == ["delay.100d", "delay.lane1.100d", "delay.lane2.100d", "delay.200d"]
    assert names[-1] == "delay.lane2.000d-00h-00m-00.9s"


def only_end(exchange: str, key: str) -> End:
    (end,) = WALKER.walk(exchange, key)
    return end


@given(
    delay_ms=st.tuples(*(st.just(0) | st.sampled_from([0, *hand.values]) for hand in HANDS))
    .map(lambda values: sum(value * hand.unit_ms for value, hand in zip(values, HANDS, strict=True)))
    .filter(lambda delay_ms: delay_ms <= MAX_DELAY_MS),
    message_id=st.sampled_from(IDS["numbers"]),
)
def test_delay_passes_only_slots_of_its_own_lane(delay_ms: int, message_id: str) -> None:
    lane = THREE.lane_for(message_id)
    taken = route(lane, delay_ms, "orders")
    end = only_end(taken.exchange, taken.routing_key)

    assert (end.queue, end.after_ms) == (lane.checkpoint, delay_ms)
    assert end.waited_in == tuple(lane.slot(*slot) for slot in taken.slots)
    assert only_end(lane.entry, taken.routing_key) == end
    assert only_end(lane.due, f"{'0.' * 7}mails").queue == "ready.mails"
    assert only_end(lane.due, f"{'0.' * 7}!lease.mails").queue == lane.checkpoint


@pytest.mark.parametrize("lane", range(3))
def test_message_without_its_slot_falls_through_to_its_lanes_checkpoint(lane: int) -> None:
    names = THREE.each_lane[lane]
    declared = plan.merged((plan.core(THREE), *(plan.slot(other, "minutes", 30) for other in THREE.each_lane)))
    taken = route(names, 30 * 60_000 + 5_000, "orders")
    (end,) = Walker(declared).walk(taken.exchange, taken.routing_key)

    assert (end.queue, end.waited_in) == (names.checkpoint, (names.slot("minutes", 30),))


def test_message_returned_from_a_ready_queue_goes_to_the_first_lane() -> None:
    assert WALKER.route("ready.returned", "orders") == ["delay.checkpoint"]


def died(queue: str) -> dict[str, Any]:
    return {"x-death": [{"queue": queue, "reason": "expired", "count": 1}]}


def test_remaining_delay_is_read_from_the_slots_of_the_lane() -> None:
    second = THREE.each_lane[2]

    assert left_of_key_ms(second, KEY, deaths(died("delay.lane2.000d-00h-30m"))) == 5_200
    assert left_of_key_ms(second, KEY, deaths(died("delay.000d-00h-30m"))) == 1_805_200


def moved(old: Names, new: Names, queue: str, message_id: str | None, headers: dict[str, Any] | None = None) -> Move:
    return move(old, new, queue=queue, key=KEY, headers=headers, now_ms=0, message_id=message_id)


def test_moved_message_goes_to_the_lane_of_its_id_with_its_remaining_delay() -> None:
    fewer = moved(THREE, ONE, "delay.lane2.000d-00h-00m-05s", "order-1", died("delay.lane2.000d-00h-30m"))
    assert (fewer.exchange, fewer.routing_key, fewer.lane) == ("delay.seconds", "0.0.0.0.0.5.2.orders", 0)
    more = moved(ONE, Names(prefix="later", lanes=3), "delay.000d-00h-30m", "order-3")
    assert (more.exchange, more.routing_key, more.lane) == ("later.lane2.minutes", KEY, 2)
    assert more.slots == (("minutes", 30), ("seconds", 5), ("tenths", 2))
    assert moved(ONE, Names(prefix="later", lanes=3), "delay.000d-00h-30m", None).lane == lane_of("", 3)
