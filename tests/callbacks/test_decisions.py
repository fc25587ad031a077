"""What follows from an answer, as tables."""

from __future__ import annotations

import pytest

from bridge.loops.callbacks.decisions import (
    LONGEST_HOLD_MS,
    Acked,
    Answer,
    Ended,
    Failure,
    Held,
    Outcome,
    Reason,
    Retry,
    after,
    retry_after_ms,
)
from bridge.model.values import Backoff

NOW_MS = 1_796_115_600_000  # 2026-12-01T09:00:00Z
BACKOFF = Backoff(steps_ms=(5_000, 30_000))


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        *((Answer(status), Acked()) for status in (200, 201, 202, 204, 299)),
        (Answer(200, "30"), Acked()),
        (Answer(410), Ended()),
        (Answer(410, "30"), Ended()),
        (Answer(429, "7"), Held(7_000)),
        (Answer(429, "0"), Held(1_000)),
        (Answer(429), Held(5_000)),
        (Answer(429, "soon"), Held(5_000)),
        (Answer(429, "86400"), Held(LONGEST_HOLD_MS)),
        (Answer(429, "9" * 400), Held(LONGEST_HOLD_MS)),
        (Answer(429, "Tue, 01 Dec 2026 09:00:20 GMT"), Held(20_000)),
        (Answer(429, "Tue, 01 Dec 2026 08:00:00 GMT"), Held(1_000)),
        (Answer(503, "7"), Held(7_000)),
        (Answer(503, "Tue, 01 Dec 2026 09:00:20 GMT"), Held(20_000)),
        (Answer(503), Retry(5_000, Reason.STATUS, "answered 503")),
        (Answer(503, "soon"), Retry(5_000, Reason.STATUS, "answered 503")),
        *(
            (Answer(status), Retry(5_000, Reason.REDIRECT, f"answered {status}"))
            for status in (301, 302, 304, 307, 308)
        ),
        *((Answer(status), Retry(5_000, Reason.STATUS, f"answered {status}")) for status in (400, 404, 413, 500, 502)),
        (Answer(500, "7"), Retry(5_000, Reason.STATUS, "answered 500")),
        *((Failure(reason, "why"), Retry(5_000, reason, "why")) for reason in Reason),
    ],
)
def test_what_an_answer_means(answer: Answer | Failure, outcome: Outcome) -> None:
    assert after(answer, attempt=1, backoff=BACKOFF, now_ms=NOW_MS) == outcome


@pytest.mark.parametrize(("attempt", "after_ms"), [(0, 5_000), (1, 5_000), (2, 30_000), (3, 30_000)])
def test_each_failure_waits_for_its_step_of_the_back_off(attempt: int, after_ms: int) -> None:
    outcome = after(Answer(500), attempt=attempt, backoff=BACKOFF, now_ms=NOW_MS)
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
