"""Tests reading and removing the dead-letter headers that the broker writes."""

from topology.deaths import Death, deaths, left_of_key_ms, strip
from topology.names import Names

ENTRY = {
    "queue": "delay.000d-00h-30m",
    "reason": "expired",
    "count": 1,
    "exchange": "delay.minutes",
    "routing-keys": ["0.0.0.0.30.5.2.orders"],
    "time": None,
}
NAMES = Names()
KEY = "0.0.0.0.30.5.2.orders"


def expired(*queues: str) -> list[Death]:
    return deaths({"x-death": [{"queue": queue, "reason": "expired", "count": 1} for queue in queues]})


def test_deaths_are_read_latest_first() -> None:
    read = deaths(
        {"x-death": [{**ENTRY, "queue": "delay.000d-00h-00m-05s", "count": 2, "original-expiration": "500"}, ENTRY]}
    )

    assert read == [
        Death(
            queue="delay.000d-00h-00m-05s",
            reason="expired",
            count=2,
            exchange="delay.minutes",
            original_expiration="500",
        ),
        Death(
            queue="delay.000d-00h-30m",
            reason="expired",
            count=1,
            exchange="delay.minutes",
            original_expiration=None,
        ),
    ]


def test_malformed_death_headers_are_tolerated() -> None:
    assert (
        deaths(None) == deaths({}) == deaths({"x-death": "yes"}) == deaths({"x-death": [1, {}, {"queue": "q"}]}) == []
    )
    assert deaths({"x-death": [{"queue": b"q", "reason": "rejected", "count": "3"}]})[0].count == 1


def test_strip_removes_only_headers_of_the_broker() -> None:
    headers = {
        "x-death": [ENTRY],
        "x-first-death-queue": "delay.000d-00h-30m",
        "x-first-death-reason": "expired",
        "x-first-death-exchange": "delay.minutes",
        "x-last-death-queue": "delay.000d-00h-00m-05s",
        "x-last-death-reason": "expired",
        "x-last-death-exchange": "delay.seconds",
        "x-delivery-count": 3,
        "x-acquired-count": 4,
        "x-opt-delivery-time": 1_769_850_000_000,
        "x-delay-due": 5,
        "x-first-death-of-a-salesman": "kept",
    }

    assert strip(headers) == {"x-delay-due": 5, "x-first-death-of-a-salesman": "kept"}
    assert strip(None) == {}


def test_remaining_delay_is_the_sum_of_slots_not_yet_passed() -> None:
    assert left_of_key_ms(NAMES, KEY, []) == 1_805_200
    assert left_of_key_ms(NAMES, KEY, expired("delay.000d-00h-30m")) == 5_200
    assert left_of_key_ms(NAMES, KEY, expired("delay.000d-00h-00m-05s", "delay.000d-00h-30m")) == 200
    assert (
        left_of_key_ms(NAMES, KEY, expired("delay.000d-00h-00m-00.2s", "delay.000d-00h-00m-05s", "delay.000d-00h-30m"))
        == 0
    )
    assert left_of_key_ms(NAMES, KEY, expired("other.000d-00h-30m")) == 1_805_200
    assert left_of_key_ms(NAMES, KEY, deaths({"x-death": [{**ENTRY, "original-expiration": "5"}]})) == 1_805_200
    assert left_of_key_ms(NAMES, "orders", expired("delay.000d-00h-30m")) is None
