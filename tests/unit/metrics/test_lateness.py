"""Tests the percentiles of a topic's latest releases."""

from __future__ import annotations

import pytest

from bridge.metrics import lateness
from bridge.model.recent import Recent


def test_lateness_is_kept_of_the_topics_released_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lateness, "_lateness_ms", Recent(lateness._MOST_WINDOWS))
    lateness.note("long-ago", 3.0)
    lateness.note("again", 3.0)
    for number in range(lateness._MOST_WINDOWS - 1):
        lateness.note(f"late-{number}", 7.0)
        lateness.note("again", 5.0)

    assert lateness.lateness_ms("long-ago")["max"] is None
    assert lateness.lateness_ms("again")["max"] == 5.0
    assert len(lateness._lateness_ms) == lateness._MOST_WINDOWS
