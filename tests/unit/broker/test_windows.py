"""Tests which copies share a bundle."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.broker.copies.windows import windows
from bridge.model.values import MAX_DELAY_MS


@pytest.mark.parametrize(
    ("left_ms", "expected"),
    [
        ([], []),
        ([5_000], [[0]]),
        ([0, 999.9, 1_000, 1_999, 2_000], [[0, 1], [2, 3], [4]]),
        ([7_000, 4_000, 8_000, 3_999], [[3], [1, 0], [2]]),
        ([86_400_000, 60_000, 86_401_000], [[1], [0, 2]]),
        ([-5.0, 10], [[0, 1]]),
    ],
)
def test_copies_whose_delays_have_one_octave_share_a_window(left_ms: list[float], expected: list[list[int]]) -> None:
    assert list(windows(left_ms)) == expected


def test_many_copies_fill_narrower_windows() -> None:
    left_ms = [float(left) for left in range(32_000, 64_000, 100)]

    sizes = [len(window) for window in windows(left_ms)]
    assert sizes == [40, 40, 40, 40, 40, 40, 40, 40]


def test_many_copies_of_nearly_one_moment_stay_together() -> None:
    assert [len(window) for window in windows([30_000.0 + at for at in range(1_000)])] == [1_000]


@given(st.lists(st.floats(-1_000, MAX_DELAY_MS), max_size=300))
def test_each_copy_is_in_one_window_and_waits_for_at_most_as_long_again(left_ms: list[float]) -> None:
    found = list(windows(left_ms))

    assert sorted(at for window in found for at in window) == list(range(len(left_ms)))
    for window in found:
        moments = [left_ms[at] for at in window]
        assert moments == sorted(moments)
        assert moments[-1] < 1_000 or moments[-1] <= 2 * moments[0]
