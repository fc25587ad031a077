"""Tests the decision table: what a receiver's answer means for the message."""

from __future__ import annotations

import pytest

from bridge.loops.callbacks.decisions import (
    LONGEST_HOLD_MS,
    Acked,
    Ended,
    Failure,
    Held,
    Outcome,
    Reason,
    Response,
    Retry,
    decide,
    retry_after_ms,
)
from bridge.model.values import Backoff

NOW_MS = 1_796_115_600_000  # 2026-12-01T09:00:00Z
BACKOFF = Backoff(steps_ms=(5_000, 30_000))


@pytest.mark.parametrize(
    ("result", "outcome"),
    [
        *((Response(status), Acked()) for status in (200, 201, 202, 204, 299)),
        (Response(200, "30"), Acked()),
        (Response(410), Ended()),
        (Response(410, "30"), Ended()),
        (Response(429, "7"), Held(7_000)),
        (Response(429, "0"), Held(1_000)),
        (Response(429), Held(5_000)),
        (Response(429, "soon"), Held(5_000)),
        (Response(429, "86400"), Held(LONGEST_HOLD_MS)),
        (Response(429, "9" * 400), Held(LONGEST_HOLD_MS)),
        (Response(429, "Tue, 01 Dec 2026 09:00:20 GMT"), Held(20_000)),
        (Response(429, "Tue, 01 Dec 2026 08:00:00 GMT"), Held(1_000)),
        (Response(503, "7"), Held(7_000)),
        (Response(503, "Tue, 01 Dec 2026 09:00:20 GMT"), Held(20_000)),
        (Response(503), Retry(5_000, Reason.STATUS, "answered 503")),
        (Response(503, "soon"), Retry(5_000, Reason.STATUS, "answered 503")),
        *(
            (Response(status), Retry(5_000, Reason.REDIRECT, f"answered {status}"))
            for status in (301, 302, 304, 307, 308)
        ),
        *(
            (Response(status), Retry(5_000, Reason.STATUS, f"answered {status}"))
            for status in (400, 404, 413, 500, 502)
        ),
        (Response(500, "7"), Retry(5_000, Reason.STATUS, "answered 500")),
        *((Failure(reason, "why"), Retry(5_000, reason, "why")) for reason in Reason),
    ],
)
def test_each_answer_has_its_outcome(result: Response | Failure, outcome: Outcome) -> None:
    assert decide(result, attempt=1, backoff=BACKOFF, now_ms=NOW_MS) == outcome


@pytest.mark.parametrize(("attempt", "after_ms"), [(0, 5_000), (1, 5_000), (2, 30_000), (3, 30_000)])
def test_each_failed_attempt_waits_for_its_step_of_the_back_off(attempt: int, after_ms: int) -> None:
    outcome = decide(Response(500), attempt=attempt, backoff=BACKOFF, now_ms=NOW_MS)
    assert outcome == Retry(after_ms, Reason.STATUS, "answered 500")


@pytest.mark.parametrize(
    ("value", "left_ms"),
    [
        (None, None), ("", None), ("-1", None), ("1.5", None), ("+1", None), ("٣", None), (" 3 ", 3_000),
        ("Tue, 01 Dec 2026 09:00:01 GMT", 1_000), ("Tuesday, 01-Dec-26 09:00:01 GMT", 1_000),
        ("Tue, 01 Dec 2026 10:00:01 +0100", 1_000), ("Tue, 99 Dec 2026 09:00:01 GMT", None),
    ],
)  # fmt: skip
def test_retry_after_is_seconds_or_a_date(value: str | None, left_ms: int | None) -> None:
    assert retry_after_ms(value, NOW_MS) == left_ms
