"""Tests that the health of several worker processes is reported as one."""

from dataclasses import asdict, replace
from typing import Any

import pytest

from bridge.broker.declared.findings import Finding
from bridge.model.part_state import OK, STARTING, Failed, PartState, Waiting
from bridge.service.health.health import Health, failures, merge_workers, serves

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


AWAY, FAILED = Waiting("away", 1), Failed("KeyError", 0, 2)


@pytest.mark.parametrize(
    ("part", "state", "expected"),
    [
        ("checkpoint", OK, True),
        ("checkpoint", STARTING, False),
        ("checkpoint", AWAY, True),
        ("watch", AWAY, True),
        ("eu/watch", AWAY, True),
        ("checkpoint", FAILED, True),
        ("schedules", FAILED, True),
        ("access", FAILED, False),
    ],
)
def test_a_loop_that_fails_ends_readiness_only_where_it_harms_callers(
    part: str, state: PartState, expected: bool
) -> None:
    assert serves(part, state) is expected


def test_each_loop_that_fails_is_a_finding_without_the_text_of_its_error() -> None:
    late, lost = failures({"watch": FAILED, "acks": OK, "push": AWAY, "access": replace(FAILED, count=1)})
    since = "has failed since 1970-01-01T00:00:00.000Z: KeyError"
    rest = "; it tries again, and the log has the event loop.failed"
    assert late == Finding("warning", f"the loop watch {since} 2 times{rest}")
    assert lost == Finding("error", f"the loop access {since} once{rest}")


def test_a_finding_of_several_workers_is_reported_once() -> None:
    found = merge_workers(health(True, LATE), {"b": asdict(health(False, LATE, LOST))})

    assert (found.findings, found.ok) == ([LATE, LOST], False)
