"""Tests when the Python client tries again, how long it waits, and which error it raises in the end."""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from delaybridge_client import (
    BodyNotKept,
    BridgeFailed,
    BrokenRequest,
    Conflict,
    Forbidden,
    InvalidArgument,
    InvalidRequest,
    LeaseEnded,
    NewMessage,
    NotFound,
    PreconditionFailed,
    Problem,
    Retries,
    SyncClient,
    TooLarge,
    TooManyRequests,
    TopicNotEmpty,
    Unanswered,
    Unauthorized,
    Unavailable,
    UnexpectedAnswer,
    operations,
)
from delaybridge_client.operation import Answer, Operation
from delaybridge_client.retries import Again, Done, Tries, retry_after_s
from tests.clients.python.scripted import MESSAGE, Scripted, answer, problem

LOST = httpx2.ReadTimeout("timed out")
CUT = httpx2.RemoteProtocolError("Server disconnected without sending a response.")
REFUSED = httpx2.ConnectError("connection refused")


@pytest.mark.parametrize("failure", [LOST, CUT, REFUSED, problem(503), problem(500, "internal"), problem(429, "x")])
def test_retried_send_has_the_same_id(scripted: Scripted, failure: Any) -> None:
    scripted.answers = [failure, failure, answer(status=201)]
    with scripted.sync_client() as client:
        sent = client.send("orders", {"order": 1})
    first, second, third = scripted.bodies
    assert first == second == third
    assert len(first["id"]) == 32
    assert not sent.replayed


async def test_asyncio_client_retries_alike(scripted: Scripted) -> None:
    scripted.answers = [LOST, problem(503), answer(status=200, headers={"idempotent-replay": "true"})]
    async with scripted.client() as client:
        sent = await client.send("orders", {"order": 1})
    assert len({body["id"] for body in scripted.bodies}) == 1
    assert sent.replayed


def test_retried_batch_has_the_same_ids(scripted: Scripted) -> None:
    result = {"status": 201, "message": MESSAGE}
    scripted.answers = [LOST, answer({"results": [result, {"status": 422, "error": problem(422, "x").json()}]})]
    with scripted.sync_client() as client:
        accepted, refused = client.send_many("orders", [NewMessage(n) for n in range(2)])
    assert scripted.bodies[0] == scripted.bodies[1]
    assert (accepted.message is not None, accepted.error) == (True, None)
    assert (refused.message, type(refused.error)) == (None, InvalidRequest)


@pytest.mark.parametrize("failure", [LOST, CUT, problem(503), problem(500, "internal")])
def test_call_that_must_not_be_repeated_is_made_once(scripted: Scripted, failure: Any) -> None:
    scripted.answers = [failure, answer({"dropped": 3})]
    with scripted.sync_client() as client, pytest.raises((Unanswered, Problem)):
        client.drop_many("orders", max=3)
    assert len(scripted.requests) == 1


@pytest.mark.parametrize("failure", [REFUSED, problem(429, "too-many-requests")])
def test_call_that_did_nothing_is_repeated_always(scripted: Scripted, failure: Any) -> None:
    scripted.answers = [failure, answer({"dropped": 3})]
    with scripted.sync_client() as client:
        assert client.drop_many("orders", max=3) == 3


@pytest.mark.parametrize(
    ("status", "slug", "error"),
    [
        (400, "broken-json", BrokenRequest),
        (401, "invalid-token", Unauthorized),
        (403, "insufficient-scope", Forbidden),
        (404, "not-found", NotFound),
        (409, "conflict", Conflict),
        (409, "lease-ended", LeaseEnded),
        (409, "body-not-kept", BodyNotKept),
        (409, "topic-not-empty", TopicNotEmpty),
        (412, "changed", PreconditionFailed),
        (413, "too-large", TooLarge),
        (422, "invalid-request", InvalidRequest),
        (429, "too-many-requests", TooManyRequests),
        (500, "internal", BridgeFailed),
        (503, "unavailable", Unavailable),
        (418, "of-a-later-version", Problem),
    ],
)
def test_problem_becomes_an_error_of_its_type(scripted: Scripted, status: int, slug: str, error: type[Problem]) -> None:
    wrong = {"field": "delay", "value": "1000d", "limit": 86_313_600_000, "message": "must be at most 999 days"}
    scripted.answers = [problem(status, slug, errors=[wrong], state="acked")]
    with scripted.sync_client(retries=Retries(attempts=1)) as client, pytest.raises(error) as raised:
        client.look_up("orders", "o-1")
    found = raised.value
    assert type(found) is error
    assert (found.status, found.title, found.detail) == (status, "A title", "what is wrong")
    assert found.type == f"urn:problem-type:delaybridge:{slug}"
    assert found.request_id == "5f0c9a7d1e3b48266a1d0f27"
    (field,) = found.errors
    assert (field.field, field.value, field.limit) == ("delay", "1000d", 86_313_600_000)
    assert "must be at most 999 days" in str(found)
    assert getattr(found, "state", "acked") == "acked"
    assert str(pickle.loads(pickle.dumps(found))) == str(found)


@pytest.mark.parametrize(
    "strange",
    [
        httpx2.Response(200, text="<html>", headers={"content-type": "text/html"}),
        httpx2.Response(404, text="nginx"),
        httpx2.Response(200, json={"topic": "orders"}),
        httpx2.Response(200, json=[]),
        httpx2.Response(404, content=b"{", headers={"content-type": "application/problem+json"}),
        httpx2.Response(302, headers={"location": "http://elsewhere/"}),
    ],
)
def test_answer_of_another_server_is_named_as_such(scripted: Scripted, strange: httpx2.Response) -> None:
    scripted.answers = [strange]
    with scripted.sync_client() as client, pytest.raises(UnexpectedAnswer, match=r"bridge\.test/delay answered"):
        client.look_up("orders", "o-1")
    assert len(scripted.requests) == 1


def test_gateway_without_a_bridge_is_tried_again(scripted: Scripted) -> None:
    scripted.answers = [httpx2.Response(502, text="bad gateway"), answer()]
    with scripted.sync_client() as client:
        assert client.look_up("orders", "o-1").id == "o-1"


def test_error_after_the_last_try_names_address_and_cause(scripted: Scripted) -> None:
    scripted.answers = [REFUSED]
    with (
        scripted.sync_client() as client,
        pytest.raises(Unanswered, match=r"bridge\.test/delay was not reached: connection refused .*4 tries") as raised,
    ):
        client.send("orders", 1)
    assert raised.value.never_sent


def test_error_without_a_text_names_its_type_and_the_whole_path(scripted: Scripted) -> None:
    scripted.answers = [httpx2.RemoteProtocolError("")]
    with (
        scripted.sync_client() as client,
        pytest.raises(Unanswered, match=r"RemoteProtocolError \(GET /v1/topics/orders/messages/o-1, 4 tries\)"),
    ):
        client.look_up("orders", "o-1")


@pytest.mark.parametrize("token", ["dbt_ü", "", "dbt_a b", "dbt_a\n"])
def test_token_that_no_header_can_carry_is_refused_at_once(token: str) -> None:
    with pytest.raises(InvalidArgument, match="token: must be printable ASCII"):
        SyncClient("http://127.0.0.1:8080", token=token)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"retry-after": "3"}, 3.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-1"}, None),
        (
            {"retry-after": "Tue, 01 Dec 2026 09:00:30 GMT", "date": "Tue, 01 Dec 2026 09:00:00 GMT"},
            30.0,
        ),
        ({"retry-after": "Tue, 01 Dec 2020 09:00:30 GMT", "date": "Tue, 01 Dec 2026 09:00:00 GMT"}, 0.0),
    ],
)
def test_retry_after_is_read_as_seconds_or_as_a_date(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after_s(headers) == expected


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def _answered(status: int, headers: dict[str, str]) -> Answer:
    response = problem(status, headers=headers)
    return Answer(status, response.headers, response.content)


def _tries(operation: Operation[Any], clock: _Clock, chance: float, **retries: Any) -> Tries[Any]:
    return Tries(operation, Retries(**retries), "http://bridge.test", clock=clock, chance=lambda: chance)


def _pause_s(step: Done[Any] | Again) -> float:
    assert isinstance(step, Again)
    return step.pause_s


@pytest.mark.parametrize(("chance", "expected"), [(0.0, [0.1, 0.2, 0.4, 0.8, 1.0]), (1.0, [0.05, 0.1, 0.2, 0.4, 0.5])])
def test_pauses_grow_to_the_longest_and_chance_halves_them(chance: float, expected: list[float]) -> None:
    tries = _tries(operations.live(), _Clock(), chance, attempts=10, longest=timedelta(seconds=1))
    assert [_pause_s(tries.after_error(LOST)) for _ in expected] == pytest.approx(expected)


def test_pause_is_as_long_as_the_bridge_asks() -> None:
    tries = _tries(operations.live(), _Clock(), 0.0)
    assert _pause_s(tries.after_answer(_answered(503, {"retry-after": "7"}))) == 7.0


def test_pause_beyond_the_patience_raises_the_error_at_once() -> None:
    tries = _tries(operations.live(), _Clock(), 0.0, patience=timedelta(seconds=5))
    with pytest.raises(Unavailable) as raised:
        tries.after_answer(_answered(503, {"retry-after": "7"}))
    assert raised.value.retry_after_s == 7.0


def test_time_that_a_pull_waits_does_not_count_as_patience() -> None:
    clock = _Clock()
    tries = _tries(operations.pull("orders", wait=timedelta(seconds=20)), clock, 0.0, patience=timedelta(seconds=5))
    clock.now = 24.0
    assert _pause_s(tries.after_error(LOST)) == 0.1
    clock.now = 25.5
    with pytest.raises(Unanswered):
        tries.after_error(LOST)
