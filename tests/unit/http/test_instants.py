"""Tests the instants in requests: Unix seconds are refused everywhere, and so is a due moment more than a day past."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import time
from typing import Any

import httpx2
import pytest

from bridge.http.exact_json import dumps
from bridge.http.reading import read
from bridge.http.structs import Request
from bridge.http.v1.bulk.bulk import BulkMoveRequest
from bridge.http.v1.contract.requests import ChangeRequest, SendRequest
from bridge.http.v1.schedules.definition import ScheduleRequest
from bridge.model.durations import INSTANT_FORMS

SECONDS = 1_769_850_000
MESSAGES = "/v1/topics/orders/messages"
SCHEDULE = {"topic": "orders", "message": {"body": 1}, "every": "1h"}
FILTER = {"topic": "orders", "state": ["waiting"]}
DAY_MS, MINUTE_MS = 86_400_000, 60_000
PAST, PAST_TEXT = 1_580_461_200_000, "2020-01-31T09:00:00Z"
IN_THE_PAST = (
    "must not be more than a day past, in Unix milliseconds: 1580461200000 is 2020-01-31T09:00:00.000Z; 0 is now"
)


@dataclass(frozen=True)
class Door:
    """A field of a request that takes an instant. `name`: the field. `others`: fields that complete the request."""

    method: str
    path: str
    name: str
    others: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.name}"

    async def ask(self, client: httpx2.AsyncClient, instant: object) -> httpx2.Response:
        return await client.request(self.method, self.path, json={**self.others, self.name: instant})


DUE = [
    Door("POST", MESSAGES, "deliver_at", {"body": 1}),
    Door("PATCH", f"{MESSAGES}/o-1001", "deliver_at"),
    Door("POST", "/v1/messages:move", "deliver_at", FILTER),
]
OTHERS = [
    *(Door("PUT", "/v1/schedules/nightly", name, SCHEDULE) for name in ("start", "anchor", "end")),
    Door("POST", "/v1/schedules/nightly/backfill", "from", {"to": "2026-12-01T09:00:00Z"}),
    Door("POST", "/v1/schedules/nightly/backfill", "to", {"from": "2026-12-01T09:00:00Z"}),
    *(
        Door("POST", f"/v1/messages:{action}", name, FILTER | others)
        for action, others in (("delete", {}), ("move", {"delay": 0}))
        for name in ("due_after", "due_before")
    ),
]


def errors(answer: httpx2.Response) -> list[tuple[Any, ...]]:
    assert answer.status_code == 422, answer.text
    return [tuple(error.values()) for error in answer.json()["errors"]]


def in_milliseconds(seconds: int) -> str:
    return f"must be Unix milliseconds: {seconds} is in 1970 to 1973; Unix seconds are meant as {seconds}000"


@pytest.mark.parametrize("seconds", [SECONDS, 1])
@pytest.mark.parametrize("door", [*DUE, *OTHERS], ids=str)
async def test_unix_seconds_are_refused_with_the_milliseconds_to_send(
    service: Any, client: httpx2.AsyncClient, door: Door, seconds: int
) -> None:
    refused = errors(await door.ask(client, seconds))
    assert refused == [(door.name, seconds, INSTANT_FORMS, in_milliseconds(seconds))]
    assert service.calls == []


@pytest.mark.parametrize("path", ["/v1/messages", MESSAGES])
@pytest.mark.parametrize("name", ["due_after", "due_before"])
async def test_unix_seconds_in_a_query_are_refused_with_the_milliseconds_to_send(
    service: Any, client: httpx2.AsyncClient, path: str, name: str
) -> None:
    refused = errors(await client.get(path, params={name: SECONDS}))
    assert refused == [(name, str(SECONDS), INSTANT_FORMS, in_milliseconds(SECONDS))]
    assert service.calls == []


@pytest.mark.parametrize("written", [False, True], ids=["number", "text"])
@pytest.mark.parametrize("door", DUE, ids=str)
async def test_a_due_moment_more_than_a_day_past_is_refused(
    service: Any, client: httpx2.AsyncClient, door: Door, *, written: bool
) -> None:
    given: object = PAST_TEXT if written else PAST
    refused = errors(await door.ask(client, given))
    assert refused == [(door.name, given, INSTANT_FORMS, IN_THE_PAST)]
    assert service.calls == []


@pytest.mark.parametrize("door", DUE, ids=str)
async def test_a_due_moment_a_minute_more_than_a_day_past_is_refused(client: httpx2.AsyncClient, door: Door) -> None:
    ((name, _, _, text),) = errors(await door.ask(client, int(time() * 1_000) - DAY_MS - MINUTE_MS))
    assert (name, text[:33]) == ("deliver_at", "must not be more than a day past,")


@pytest.mark.parametrize(
    ("model", "others"), [(SendRequest, {"body": 1}), (ChangeRequest, {}), (BulkMoveRequest, FILTER)]
)
def test_zero_and_a_due_moment_of_the_last_day_are_accepted(model: type[Request], others: dict[str, Any]) -> None:
    for instant in (0, int(time() * 1_000) - DAY_MS + MINUTE_MS):
        request: Any = read(model, dumps(others | {"deliver_at": instant}))
        assert request.deliver_at == instant


@pytest.mark.parametrize(
    ("given", "message"),
    [(SECONDS, in_milliseconds(SECONDS)), (PAST, IN_THE_PAST)],
)
async def test_a_batch_refuses_a_wrong_due_moment_and_names_the_entry(
    service: Any, client: httpx2.AsyncClient, given: int, message: str
) -> None:
    entries = [{"body": 1, "deliver_at": given}]
    (result,) = (await client.post(f"{MESSAGES}/batch", json={"messages": entries})).json()["results"]
    (error,) = result["error"]["errors"]
    assert result["status"] == 422
    assert tuple(error.values()) == ("messages.0.deliver_at", given, INSTANT_FORMS, message)
    assert service.calls == []


@pytest.mark.parametrize("name", ["start", "anchor", "end"])
def test_a_schedule_may_begin_and_end_in_the_past(name: str) -> None:
    request = read(ScheduleRequest, dumps(SCHEDULE | {name: PAST_TEXT}))
    assert getattr(request, name) == PAST
