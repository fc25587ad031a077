"""Tests that the log tells each outage of a server once, however often it is probed."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from bridge.service.health.outage import HOLD_S, Outage

SILENT = "Redis did not answer"
AWAY = {"event": "server.away", "part": "store", "reason": SILENT, "log_level": "warning"}


def back(away_s: float) -> dict[str, object]:
    return {"event": "server.back", "part": "store", "away_s": away_s, "log_level": "info"}


@pytest.mark.parametrize(
    ("probes", "lines", "lasts"),
    [
        ([(0.0, "ok"), (9.0, "ok")], [], False),
        ([(1.0, SILENT), (2.0, "Redis is full"), (3.0, SILENT)], [AWAY], True),
        ([(1.0, SILENT), (3.0, "ok"), (3.0 + HOLD_S - 0.1, "ok")], [AWAY], True),
        ([(1.0, SILENT), (3.0, "ok"), (3.0 + HOLD_S, "ok")], [AWAY, back(2.0)], False),
        ([(1.0, SILENT), (3.0, "ok"), (4.0, SILENT), (6.0, "ok"), (6.0 + HOLD_S, "ok")], [AWAY, back(5.0)], False),
        (
            [(1.0, SILENT), (2.0, "ok"), (9.0, "ok"), (10.0, SILENT), (13.0, "ok"), (20.0, "ok")],
            [AWAY, back(1.0), AWAY, back(3.0)],
            False,
        ),
    ],
    ids=["well", "away", "not back for long", "back", "comes and goes", "two outages"],
)
def test_log_tells_each_outage_once(probes: list[tuple[float, str]], lines: list[object], lasts: bool) -> None:
    outage = Outage("store")
    with capture_logs() as logged:
        for now_s, state in probes:
            outage.seen(state, now_s)

    assert logged == lines
    assert outage.lasts is lasts
