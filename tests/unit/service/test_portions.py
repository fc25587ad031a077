"""Tests how items are split into portions by their sizes."""

from __future__ import annotations

import pytest

from bridge.service.reading.portions import portions


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([0, 0, 0], [[0, 0, 0]], id="no bytes"),
        pytest.param([4, 6], [[4, 6]], id="up to the limit"),
        pytest.param([4, 6, 1], [[4, 6], [1]], id="over the limit"),
        pytest.param([11, 1, 12, 13], [[11], [1], [12], [13]], id="a larger item is alone"),
        pytest.param([5, 5, 5, 5, 5], [[5, 5], [5, 5], [5]], id="several"),
        pytest.param([0, 11, 0], [[0], [11], [0]], id="empty items beside a larger one"),
    ],
)
def test_a_portion_has_at_most_so_many_bytes(sizes: list[int], expected: list[list[int]]) -> None:
    assert [sizes[portion] for portion in portions(sizes, most_bytes=10)] == expected
