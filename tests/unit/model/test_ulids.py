"""Tests new ULIDs against the library python-ulid."""

from __future__ import annotations

import os
from time import time

import pytest
from ulid import ULID

from bridge.model import ulids
from bridge.model.ulids import new_ulid

NOW_MS = 1_796_115_600_123


def test_library_parses_new_ulids_and_their_time() -> None:
    before_ms = int(time() * 1_000)
    made = new_ulid()
    read = ULID.from_str(made)

    assert str(read) == made
    assert before_ms <= read.milliseconds <= int(time() * 1_000)


def test_new_ulids_are_unique_and_in_order() -> None:
    made = [new_ulid() for _ in range(20_000)]

    assert made == sorted(set(made))


@pytest.mark.parametrize("random", [bytes(10), b"\xff" * 10, bytes(range(7)) + b"\x12\x34\x56", bytes(9) + b"\x1f"])
def test_ulids_of_one_millisecond_are_consecutive_numbers(monkeypatch: pytest.MonkeyPatch, random: bytes) -> None:
    monkeypatch.setattr(ulids, "time_ns", lambda: NOW_MS * 1_000_000)
    monkeypatch.setattr(os, "urandom", lambda size: random[:size])
    generator = ulids._Ulids()
    made = [generator.new() for _ in range(3_000)]
    first = int.from_bytes(ULID.from_str(made[0]).bytes, "big")

    assert made == [str(ULID((first + number).to_bytes(16, "big"))) for number in range(3_000)]
    # 79 of the 80 random bits are kept. One bit is cleared, to leave room for counting up.
    drawn = int.from_bytes(NOW_MS.to_bytes(6, "big") + random, "big")
    assert first >> 20 == drawn >> 20
    assert first & 0xFFFFF == (drawn & 0xFFFFFF) >> 5


def test_one_millisecond_has_room_for_half_a_million_ulids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ulids, "time_ns", lambda: NOW_MS * 1_000_000)
    monkeypatch.setattr(os, "urandom", lambda size: b"\xff" * size)
    generator = ulids._Ulids()
    first = generator.new()
    generator._tail += 500_000

    assert first < generator.new()
