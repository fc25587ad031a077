"""Tests that the health of several worker processes is reported as one."""

from dataclasses import asdict
from typing import Any

import pytest

from bridge.broker.declared.findings import Finding
from bridge.service.health import Health, merge_workers

LATE, LOST = Finding("warning", "comes late"), Finding("error", "is lost")


def health(ok: bool = True, *findings: Finding, **parts: str) -> Health:
    return Health(ok=ok, parts=parts, findings=list(findings), policies="looked at")


@pytest.mark.parametrize(
    ("own", "others", "ok", "parts"),
    [
        (health(broker="ok"), {}, True, {"broker": "ok"}),
        (health(broker="ok"), {"b": health(checkpoint="ok")}, True, {"broker": "ok", "checkpoint": "ok"}),
        (health(broker="ok"), {"b": health(False, broker="away")}, False, {"broker": "away"}),
        (health(False, broker="away"), {"b": health(broker="ok")}, False, {"broker": "away"}),
        (health(broker="ok"), {"b": None}, False, {"broker": "ok", "b": "does not answer"}),
        (
            health(broker="ok"),
            {"b": health(False, process="stopping"), "c": None},
            False,
            {"broker": "ok", "process": "stopping", "c": "does not answer"},
        ),
    ],
)
def test_workers_are_healthy_together_only_if_each_is_and_the_worst_part_is_shown(
    own: Health, others: dict[str, Health | None], ok: bool, parts: dict[str, str]
) -> None:
    reported: dict[str, Any] = {name: other and asdict(other) for name, other in others.items()}

    found = merge_workers(own, reported)

    assert (found.ok, found.parts) == (ok, parts)


def test_a_finding_of_several_workers_is_reported_once() -> None:
    found = merge_workers(health(True, LATE), {"b": asdict(health(False, LATE, LOST))})

    assert (found.findings, found.ok) == ([LATE, LOST], False)
