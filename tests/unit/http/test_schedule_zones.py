"""Tests which time zones a schedule takes."""

from __future__ import annotations

from zoneinfo import TZPATH, available_timezones

import pytest

from bridge.http.exact_json import dumps
from bridge.http.reading import read
from bridge.http.v1.schedules.definition import ScheduleRequest
from bridge.model.errors import InvalidRequest

CRON = {"topic": "orders", "message": {"body": "x"}, "cron": "0 9 * * *"}


@pytest.mark.parametrize("zone", ["Europe/Vienna", "Etc/GMT+5", "UTC"])
def test_a_zone_that_is_the_same_on_each_machine_is_taken(zone: str) -> None:
    assert read(ScheduleRequest, dumps(CRON | {"timezone": zone})).timezone == zone


@pytest.mark.parametrize("zone", ["localtime", "Factory"])
def test_a_zone_that_each_machine_sets_for_itself_is_refused(zone: str) -> None:
    assert zone in available_timezones(), f"the zones under {TZPATH} have no {zone!r}, so this test shows nothing"
    with pytest.raises(InvalidRequest) as refused:
        read(ScheduleRequest, dumps(CRON | {"timezone": zone}))
    (error,) = refused.value.errors
    assert (error.field, error.value) == ("timezone", zone)


@pytest.mark.parametrize("zone", ["Mars/Base", "europe/vienna", "", 7])
def test_a_zone_that_nobody_knows_is_refused(zone: object) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(ScheduleRequest, dumps(CRON | {"timezone": zone}))
    assert [error.field for error in refused.value.errors] == ["timezone"]
