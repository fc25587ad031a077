"""Tests schedules over HTTP: which names they have, and which cron expressions they take."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest

from bridge.http.v1.contract.scalars import PATH_STEP
from bridge.http.v1.schedules import changes
from bridge.service.schedules.definition import Progress, Schedule, Spec
from tests.unit.http.conftest import CREATED_MS

CRON = {"topic": "orders", "message": {"body": "x"}, "cron": "0 9 * * *"}


@dataclass
class Kept:
    """Stands in for the service of schedules. The clock says 2026-12-01T09:00:00Z."""

    specs: dict[str, Spec] = field(default_factory=dict)

    def __call__(self, pools: object) -> Kept:
        return self

    async def now_ms(self) -> int:
        return CREATED_MS

    async def put(self, name: str, spec: Spec, *, who: str, check: Any, maker: object) -> tuple[Schedule, bool]:
        check(spec)
        self.specs[name] = spec
        progress = Progress(created_ms=CREATED_MS, since_ms=CREATED_MS, position_ms=CREATED_MS, who=who)
        return Schedule(name=name, spec=spec, progress=progress), True


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Kept:
    kept = Kept()
    monkeypatch.setattr(changes, "Schedules", kept)
    return kept


@pytest.mark.parametrize(("written", "name"), [("%2E", "."), ("%2E%2E", ".."), (".%2e", "..")])
async def test_a_schedule_is_not_named_like_a_step_in_a_path(
    kept: Kept, client: httpx2.AsyncClient, written: str, name: str
) -> None:
    answer = await client.put(f"/v1/schedules/{written}", json=CRON)
    (error,) = answer.json()["errors"]
    assert answer.status_code == 422
    assert tuple(error.values()) == ("schedule", name, PATH_STEP.removeprefix("must be "), PATH_STEP)
    assert kept.specs == {}


async def test_a_dot_inside_the_name_of_a_schedule_is_allowed(kept: Kept, client: httpx2.AsyncClient) -> None:
    answer = await client.put("/v1/schedules/..nightly.report", json=CRON)
    assert (answer.status_code, answer.json()["name"]) == (201, "..nightly.report")


@pytest.mark.parametrize(
    ("word", "fields", "ticks"),
    [
        ("@daily", "0 0 * * *", ["2026-12-02T00:00:00.000Z", "2026-12-03T00:00:00.000Z"]),
        ("@hourly", "0 * * * *", ["2026-12-01T10:00:00.000Z", "2026-12-01T11:00:00.000Z"]),
    ],
)
async def test_a_word_for_a_cron_expression_is_shown_as_its_five_fields(
    kept: Kept, client: httpx2.AsyncClient, word: str, fields: str, ticks: list[str]
) -> None:
    answer = await client.put("/v1/schedules/nightly", json=CRON | {"cron": word})
    shown = answer.json()
    assert (answer.status_code, answer.headers["location"]) == (201, "/v1/schedules/nightly")
    assert (shown["name"], shown["state"], shown["cron"], shown["timezone"]) == ("nightly", "active", fields, "UTC")
    assert [tick["at"] for tick in shown["next"]][:2] == ticks
    assert kept.specs["nightly"].timing.cron == fields


async def test_an_unknown_word_for_a_cron_expression_is_refused_with_the_known_ones(
    kept: Kept, client: httpx2.AsyncClient
) -> None:
    answer = await client.put("/v1/schedules/nightly", json=CRON | {"cron": "@dayly"})
    (error,) = answer.json()["errors"]
    assert (answer.status_code, error["field"], error["value"]) == (422, "cron", "@dayly")
    assert "@daily" in error["message"]
    assert kept.specs == {}
