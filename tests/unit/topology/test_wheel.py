"""Tests the routing key of a delay with a table that has the extremes."""

from itertools import pairwise

import pytest

from topology.names import Names
from topology.wheel import (
    DAY_MS,
    HANDS,
    HOUR_MS,
    MAX_DELAY_MS,
    MINUTE_MS,
    SECOND_MS,
    DelayOutOfRange,
    ceil_to_tenth,
    digits,
    floor_to_tenth,
    route,
)

NAMES = Names()
LAST_TENTH_OF_A_DAY_MS = DAY_MS - 100


@pytest.mark.parametrize(
    ("delay_ms", "exchange", "routing_key", "queues"),
    [
        (0, "delay.due", "0.0.0.0.0.0.0.orders", []),
        (100, "delay.tenths", "0.0.0.0.0.0.1.orders", ["delay.000d-00h-00m-00.1s"]),
        (900, "delay.tenths", "0.0.0.0.0.0.9.orders", ["delay.000d-00h-00m-00.9s"]),
        (1_000, "delay.seconds", "0.0.0.0.0.1.0.orders", ["delay.000d-00h-00m-01s"]),
        (59_900, "delay.seconds", "0.0.0.0.0.59.9.orders", ["delay.000d-00h-00m-59s", "delay.000d-00h-00m-00.9s"]),
        (60_000, "delay.minutes", "0.0.0.0.1.0.0.orders", ["delay.000d-00h-01m"]),
        (
            1_805_200,
            "delay.minutes",
            "0.0.0.0.30.5.2.orders",
            ["delay.000d-00h-30m", "delay.000d-00h-00m-05s", "delay.000d-00h-00m-00.2s"],
        ),
        (
            HOUR_MS - 100,
            "delay.minutes",
            "0.0.0.0.59.59.9.orders",
            ["delay.000d-00h-59m", "delay.000d-00h-00m-59s", "delay.000d-00h-00m-00.9s"],
        ),
        (HOUR_MS, "delay.hours", "0.0.0.1.0.0.0.orders", ["delay.000d-01h"]),
        (
            LAST_TENTH_OF_A_DAY_MS,
            "delay.hours",
            "0.0.0.23.59.59.9.orders",
            ["delay.000d-23h", "delay.000d-00h-59m", "delay.000d-00h-00m-59s", "delay.000d-00h-00m-00.9s"],
        ),
        (DAY_MS, "delay.days", "0.0.1.0.0.0.0.orders", ["delay.001d"]),
        (10 * DAY_MS, "delay.tens-of-days", "0.1.0.0.0.0.0.orders", ["delay.010d"]),
        (100 * DAY_MS, "delay.hundreds-of-days", "1.0.0.0.0.0.0.orders", ["delay.100d"]),
        (
            365 * DAY_MS + 6 * HOUR_MS,
            "delay.hundreds-of-days",
            "3.6.5.6.0.0.0.orders",
            ["delay.300d", "delay.060d", "delay.005d", "delay.000d-06h"],
        ),
        (
            MAX_DELAY_MS - 100,
            "delay.hundreds-of-days",
            "9.9.8.23.59.59.9.orders",
            [
                "delay.900d",
                "delay.090d",
                "delay.008d",
                "delay.000d-23h",
                "delay.000d-00h-59m",
                "delay.000d-00h-00m-59s",
                "delay.000d-00h-00m-00.9s",
            ],
        ),
        (
            MAX_DELAY_MS,
            "delay.hundreds-of-days",
            "9.9.9.0.0.0.0.orders",
            ["delay.900d", "delay.090d", "delay.009d"],
        ),
    ],
)
def test_delay_has_one_key_and_enters_at_its_slowest_hand(
    delay_ms: int, exchange: str, routing_key: str, queues: list[str]
) -> None:
    taken = route(NAMES, delay_ms, "orders")

    assert (taken.exchange, taken.routing_key) == (exchange, routing_key)
    assert [NAMES.slot(*slot) for slot in taken.slots] == queues


def test_kind_is_written_between_the_digits_and_the_topic() -> None:
    assert route(NAMES, 1_805_200, "shop/orders", "lease").routing_key == "0.0.0.0.30.5.2.!lease.shop/orders"


def test_exchange_names_begin_with_the_prefix() -> None:
    names = Names(prefix="later")

    assert route(names, 0, "orders").exchange == "later.due"
    assert route(names, 1_000, "orders").exchange == "later.seconds"


@pytest.mark.parametrize("delay_ms", [MAX_DELAY_MS + 1, MAX_DELAY_MS + 100, -1, -100])
def test_delay_out_of_range_is_refused_with_the_limit(delay_ms: int) -> None:
    with pytest.raises(DelayOutOfRange, match=rf"{delay_ms} ms.*86313600000 ms \(999 days\)") as refused:
        route(NAMES, delay_ms, "orders")

    assert refused.value.delay_ms == delay_ms
    assert refused.value.limit_ms == (86_313_600_000 if delay_ms > 0 else 0)


def test_delay_that_is_not_a_whole_number_of_tenths_is_refused() -> None:
    with pytest.raises(ValueError, match="1050 ms is not a whole number of tenths"):
        digits(1_050)


@pytest.mark.parametrize(
    ("delay_ms", "floor", "ceil"),
    [(-1, 0, 0), (0, 0, 0), (1, 0, 100), (99.9, 0, 100), (100, 100, 100), (101, 100, 200)],
)
def test_delays_are_rounded_to_tenths(delay_ms: float, floor: int, ceil: int) -> None:
    assert (floor_to_tenth(delay_ms), ceil_to_tenth(delay_ms)) == (floor, ceil)


def test_hands_cover_every_delay_without_a_gap() -> None:
    for slower, faster in pairwise(HANDS):
        assert slower.unit_ms == (faster.values[-1] + 1) * faster.unit_ms
    assert HANDS[-1].unit_ms == 100
    assert [hand.unit_ms for hand in HANDS[3:6]] == [HOUR_MS, MINUTE_MS, SECOND_MS]
    assert sum(len(hand.values) for hand in HANDS) == 177
