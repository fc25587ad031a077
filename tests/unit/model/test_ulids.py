from __future__ import annotations

import os
from time import time

import pytest
from ulid import ULID

from bridge.model import ulids
from bridge.model.ulids import new_ulid

NOW_MS = 1_796_115_600_123


def test_the_library_reads_them_as_what_they_are() -> None:
    before_ms = int(time() * 1_000)
    made = new_ulid()
    read = ULID.from_str(made)

    assert str(read) == made
    assert before_ms <= read.milliseconds <= int(time() * 1_000)


def test_they_are_in_order_and_each_is_another() -> None:
    made = [new_ulid() for _ in range(20_000)]

    assert made == sorted(set(made))


@pytest.mark.parametrize("random", [bytes(10), b"\xff" * 10, bytes(range(7)) + b"\x12\x34\x56", bytes(9) + b"\x1f"])
def test_those_of_a_millisecond_are_the_next_numbers_as_the_library_writes_them(
    monkeypatch: pytest.MonkeyPatch, random: bytes
) -> None:
    monkeypatch.setattr(ulids, "time_ns", lambda: NOW_MS * 1_000_000)
    monkeypatch.setattr(os, "urandom", lambda size: random[:size])
    of_a_process = ulids._Ulids()
    made = [of_a_process.new() for _ in range(3_000)]
    first = int.from_bytes(ULID.from_str(made[0]).bytes, "big")

    assert made == [str(ULID((first + number).to_bytes(16, "big"))) for number in range(3_000)]
    # 79 of the 80 random bits are as they were drawn: one makes room to count on.
    drawn = int.from_bytes(NOW_MS.to_bytes(6, "big") + random, "big")
    assert first >> 20 == drawn >> 20
    assert first & 0xFFFFF == (drawn & 0xFFFFFF) >> 5


def test_a_millisecond_has_room_for_half_a_million(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ulids, "time_ns", lambda: NOW_MS * 1_000_000)
    monkeypatch.setattr(os, "urandom", lambda size: b"\xff" * size)
    of_a_process = ulids._Ulids()
    first = of_a_process.new()
    of_a_process._tail += 500_000

    assert first < of_a_process.new()
