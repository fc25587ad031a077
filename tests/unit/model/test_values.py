"""Tests back-off, receipts and cursors with tables of literals."""

from base64 import urlsafe_b64encode

import pytest

from bridge.model.errors import InvalidRequest
from bridge.model.values import Backoff
from bridge.service.protocol import receipts
from bridge.service.protocol.receipts import Receipt
from bridge.service.reading.cursors import make_cursor, read_cursor


def encoded(text: str) -> str:
    return urlsafe_b64encode(text.encode()).decode().rstrip("=")


@pytest.mark.parametrize(
    ("backoff", "waits_ms"),
    [
        (Backoff(), [0, 0, 0]),
        (Backoff(steps_ms=(100,)), [100, 100, 100]),
        (Backoff(steps_ms=(100, 0, 5_000)), [100, 0, 5_000, 5_000]),
        (Backoff(first_ms=100, factor=2, max_ms=1_000), [100, 200, 400, 800, 1_000, 1_000]),
        (Backoff(first_ms=100, factor=1.5, max_ms=10_000), [100, 150, 225, 337, 506]),
        (Backoff(first_ms=5_000, factor=1, max_ms=1_000), [1_000, 1_000]),
        (Backoff(first_ms=0, factor=10, max_ms=1_000), [0, 0]),
    ],
)
def test_back_off_delay_follows_the_number_of_failures(backoff: Backoff, waits_ms: list[int]) -> None:
    assert [backoff.delay_ms(failures) for failures in range(1, len(waits_ms) + 1)] == waits_ms


def test_back_off_after_many_failures_is_its_maximum() -> None:
    assert Backoff(first_ms=1, factor=1_000, max_ms=86_400_000).delay_ms(10_000) == 86_400_000
    assert Backoff(steps_ms=(1, 2)).delay_ms(10_000) == 2


@pytest.mark.parametrize(
    ("receipt", "text"),
    [
        (Receipt("o-1001", 2, 0x1F0C55AA00B7), "Mi0xZjBjNTVhYTAwYjcuby0xMDAx"),
        (Receipt("a.b", 10, 1), "MTAtMS5hLmI"),
        (Receipt(" ~", 1, 2**48 - 1), "MS1mZmZmZmZmZmZmZmYuIH4"),
        # Of an older bridge, which knew no nonce.
        (Receipt("o-1001", 2, None), "Mi5vLTEwMDE"),
        (Receipt("a-1.b", 10, None), "MTAuYS0xLmI"),
        (Receipt(" ~", 1, None), "MS4gfg"),
    ],
)
def test_receipt_round_trips(receipt: Receipt, text: str) -> None:
    assert receipts.make(receipt) == text
    assert receipts.read(text) == receipt


FORGED = [
    "",
    "?",
    "é",
    "Mi5vLTEwMDE=",
    "Mi5vLTEwMDE\n",
    "Mi5vLTEwMDEA",
    encoded("2"),
    encoded("2."),
    encoded(".o-1"),
    encoded("-2.o-1"),
    encoded("02.o-1"),
    encoded("2.5"[:1] + "_0.o-1"),
    encoded("²." + "o-1"),
    encoded("2-.o-1"),
    encoded("2-0.o-1"),
    encoded("2-01.o-1"),
    encoded("2-F.o-1"),
    encoded("2-1000000000000.o-1"),
    encoded("2-1-1.o-1"),
    encoded("-1.o-1"),
    encoded("2.a/b"),
    encoded("2.a\n"),
    encoded("2." + "x" * 201),
    "x" * 5_000,
    urlsafe_b64encode(b"2.\xff").decode().rstrip("="),
]


@pytest.mark.parametrize("forged", FORGED)
def test_malformed_receipt_is_an_invalid_request(forged: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        receipts.read(forged)
    (error,) = refused.value.errors
    assert (error.field, error.value) == ("receipt", forged[:200])


@pytest.mark.parametrize(("due_ms", "message_id"), [(0, "a"), (1_769_850_000_000, "a.b.c"), (2**53, "~")])
def test_cursor_round_trips(due_ms: int, message_id: str) -> None:
    assert read_cursor(make_cursor(due_ms, message_id)) == (due_ms, message_id)


@pytest.mark.parametrize("forged", FORGED)
def test_malformed_cursor_is_an_invalid_request(forged: str) -> None:
    with pytest.raises(InvalidRequest, match="is not a cursor"):
        read_cursor(forged)
