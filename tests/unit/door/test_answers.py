"""Tests that the door knows where a frame of the broker ends."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bridge.door.answers import Answers
from bridge.door.methods import close


def test_before_the_first_frame_none_may_come() -> None:
    assert not Answers().is_whole


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=5), st.data())
def test_a_frame_may_come_exactly_between_two_others(payloads: list[bytes], data: st.DataObject) -> None:
    frames = [b"\x01\x00\x01" + len(payload).to_bytes(4, "big") + payload + b"\xce" for payload in payloads]
    ends = {sum(map(len, frames[: count + 1])) for count in range(len(frames))}
    whole = b"".join(frames)
    answers, place = Answers(), 0
    while place < len(whole):
        size = data.draw(st.integers(1, len(whole) - place))
        answers.follow(whole[place : place + size])
        place += size
        assert answers.is_whole is (place in ends)


def test_goodbye_is_a_frame_of_amqp() -> None:
    assert close(320, "gone") == b"\x01\x00\x00\x00\x00\x00\x0f\x00\x0a\x00\x32\x01\x40\x04gone\x00\x00\x00\x00\xce"
