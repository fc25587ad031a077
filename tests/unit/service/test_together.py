from __future__ import annotations

from bridge.service.sending import _together


def test_sends_of_one_home_share_a_call_up_to_64_in_their_order() -> None:
    homes = ["a", "b", *["a"] * 64, "b"]

    assert _together(homes) == [[0, *range(2, 65)], [65], [1, 66]]
    assert _together([]) == []
