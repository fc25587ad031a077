"""Tests how messages are dealt to pulls, how large a feed's window is, and when demand is steady."""

from __future__ import annotations

import pytest

from bridge.service.pulling.dealing import LOOK_EVERY_S, MOST, Demand, deal, serves_all, window_for


@pytest.mark.parametrize(
    ("limits", "messages", "shares"),
    [
        ([], 5, []),
        ([1], 0, [0]),
        ([1, 1, 1], 2, [1, 1, 0]),
        ([10, 10], 13, [10, 3]),
        ([100, 1], 100, [100, 0]),
        ([2, 3, 4], 100, [2, 3, 4]),
    ],
)
def test_messages_are_dealt_in_the_order_of_arrival_up_to_each_limit(
    limits: list[int], messages: int, shares: list[int]
) -> None:
    assert deal(limits, messages) == shares


@pytest.mark.parametrize(
    ("limits", "messages", "all_served"),
    [([], 0, True), ([5], 1, True), ([5, 5], 5, False), ([5, 5], 6, True), ([1, 1, 1], 3, True), ([1], 0, False)],
)
def test_all_are_served_if_the_last_pull_gets_a_message(limits: list[int], messages: int, all_served: bool) -> None:
    assert serves_all(limits, messages) is all_served


@pytest.mark.parametrize(
    ("shares", "out", "window"),
    [([], 0, 1), ([1], 0, 1), ([10, 10], 3, 23), ([100, 100, 100], 0, MOST), ([], 1_000, MOST)],
)
def test_window_is_what_pulls_want_and_what_is_being_leased(shares: list[int], out: int, window: int) -> None:
    assert window_for(shares, out, steady=False, leased=0) == window


def test_window_of_steady_pulls_is_a_little_larger() -> None:
    assert window_for([1, 1], 2, steady=True, leased=0) == 8
    assert window_for([100, 100, 100], 0, steady=True, leased=0) == MOST


@pytest.mark.parametrize(("leased", "window"), [(0, 3), (1, 4), (2, 5), (3, 7), (5, 11), (65, 131), (300, MOST)])
def test_window_has_room_for_the_leased_messages_that_are_not_acknowledged(leased: int, window: int) -> None:
    assert window_for([1, 1], 1, steady=False, leased=leased) == window


@pytest.mark.parametrize(
    ("moments_s", "now_s", "steady"),
    [
        ([], 0.0, False),
        ([0.0, 0.0, 0.0], 0.0, False),
        ([0.0, 0.01, 0.02, 0.03], 0.03, True),
        ([0.0, 0.01, 0.02, 0.03], 0.3, False),
        ([0.0, 0.1, 0.2, 0.3], 0.3, False),
        ([0.0, 5.0, 5.01, 5.02, 5.03], 5.03, True),
    ],
)
def test_demand_is_steady_while_pulls_come_fast(moments_s: list[float], now_s: float, steady: bool) -> None:
    demand = Demand()
    for moment_s in moments_s:
        demand.note(moment_s)
    assert demand.is_steady(now_s) is steady


def test_window_grows_at_once() -> None:
    demand = Demand()
    assert demand.resized(4, 9, now_s=10.0) == 9


def test_window_shrinks_after_a_second_to_the_most_that_was_wanted() -> None:
    demand = Demand()
    demand.resized(1, 64, now_s=10.0)
    assert [demand.resized(64, wanted, now_s=10.1) for wanted in (3, 8, 2)] == [64, 64, 64]
    assert demand.resized(64, 1, now_s=10.1 + LOOK_EVERY_S) == 8


def test_window_keeps_its_size_while_half_of_it_is_wanted() -> None:
    demand = Demand()
    demand.resized(1, 64, now_s=10.0)
    assert demand.resized(64, 32, now_s=10.5) == 64
    assert demand.resized(64, 1, now_s=11.5) == 64
    assert demand.resized(64, 1, now_s=12.6) == 1
