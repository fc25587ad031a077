"""Tests changes of messages over HTTP: what reaches the service, and the precondition of a request."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx2
import pytest

from bridge.http.v1.operation.preconditions import LONGEST, Precondition, etag
from bridge.model.errors import InvalidRequest, NotAsSeen
from bridge.model.message import Envelope, State
from bridge.model.values import Change
from tests.unit.http.conftest import RECORD

PATH = "/v1/topics/orders/messages/o-1001"


@pytest.mark.parametrize(
    ("before", "given", "expected"),
    [
        ({}, {"delay": 0}, Change(delay_ms=0)),
        ({}, {"deliver_at": 0, "delay": None}, Change(deliver_at_ms=0)),
        ({}, {"ttl": "1m", "max_retry": 0}, Change(ttl_ms=60_000, max_retry=0)),
        ({}, {"labels": {"b": "2", "a": "1"}}, Change(labels="a=1\nb=2")),
        ({}, {"labels": {}}, Change(labels="")),
        ({}, {"body": None}, Change(envelope=Envelope(body=b"null"))),
        ({}, {"body": [1.50], "delay": "1s"}, Change(envelope=Envelope(body=b"[1.5]"), delay_ms=1_000)),
        ({}, {"headers": {"a": 1}}, Change(envelope=Envelope(headers={"a": 1}, body=b'{"order":1001}'))),
        (
            {"content_type": "text/plain"},
            {"body": "new"},
            Change(envelope=Envelope(content_type="text/plain", body=b"new")),
        ),
        (
            {"content_type": "text/plain"},
            {"body": "new", "content_type": "application/json"},
            Change(envelope=Envelope(body=b'"new"')),
        ),
        ({}, {"body_base64": "AAH/"}, Change(envelope=Envelope(body=b"\x00\x01\xff"))),
        ({"body": None}, {"headers": {}}, Change(envelope=Envelope(body=None))),
    ],
)
async def test_what_is_given_is_changed_and_the_rest_stays(
    service: Any, client: httpx2.AsyncClient, before: dict[str, Any], given: Any, expected: Change
) -> None:
    message = service.message(**before)
    service.answers |= {"lookup.get": message, "changing.change": message}
    answer = await client.patch(PATH, json=given)
    assert (answer.status_code, answer.headers["etag"]) == (200, etag(message.record))
    assert service.calls[1:] == [("changing.change", (message, expected), {"as_seen": False})]


async def test_a_body_that_does_not_fit_the_content_type_of_the_message_is_refused(
    service: Any, client: httpx2.AsyncClient
) -> None:
    service.answers["lookup.get"] = service.message(content_type="image/png")
    answer = await client.patch(PATH, json={"body": {}})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "content_type")


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
async def test_a_stale_etag_reaches_no_service(service: Any, client: httpx2.AsyncClient, method: str) -> None:
    service.answers["lookup.get"] = service.message()
    given: dict[str, Any] = {"json": {"delay": 0}} if method == "PATCH" else {}
    answer = await client.request(method, PATH, headers={"If-Match": '"stale"'}, **given)
    assert (answer.status_code, answer.json()["state"]) == (412, "waiting")
    assert answer.json()["type"].endswith(":not-as-seen")
    assert [called for called, *_ in service.calls] == ["lookup.get"]


async def test_a_matching_etag_is_held_to_its_version(service: Any, client: httpx2.AsyncClient) -> None:
    message = service.message()
    service.answers |= {"lookup.get": message, "changing.change": message, "changing.delete": message}
    seen = (await client.get(PATH)).headers["etag"]
    assert (await client.patch(PATH, json={"delay": 0}, headers={"If-Match": seen})).status_code == 200
    assert service.calls[-1][2] == {"as_seen": True}
    assert (await client.delete(PATH, headers={"If-Match": f'"a", {seen}'})).status_code == 200
    assert service.calls[-1][2] == {"release": False, "seen": message.record.version}


def test_each_visible_field_is_in_the_etag() -> None:
    others: dict[str, Any] = {
        "state": State.READY, "epoch": 2, "nonce": 8, "created_ms": 1, "due_ms": 1, "expires_ms": 1, "attempts": 1,
        "max_retry": 4, "lease_until_ms": 1, "ended_ms": 1, "reason": "no", "labels": "a=1",
    }  # fmt: skip
    tags = {etag(replace(RECORD, **{name: value})) for name, value in others.items()}
    assert len(tags | {etag(RECORD)}) == len(others) + 1
    hidden = replace(RECORD, arrives_ms=1, last_ms=1, forget_ms=1)
    assert etag(hidden) == etag(RECORD)


TAG = etag(RECORD)


@pytest.mark.parametrize("given", ["*", " * ", TAG, f'"x", {TAG}', f'W/"x" , {TAG},"y"'])
def test_if_match_accepts_the_version(given: str) -> None:
    Precondition([(b"if-match", given.encode())]).check(RECORD)


@pytest.mark.parametrize("given", ['"x"', f"W/{TAG}", '""'])
def test_if_match_refuses_another_version(given: str) -> None:
    with pytest.raises(NotAsSeen):
        Precondition([(b"if-match", given.encode())]).check(RECORD)


@pytest.mark.parametrize("given", ["", TAG.strip('"'), "x", '"x', '"x" "y"', f"{TAG}, *", '"' + "x" * LONGEST + '"'])
def test_if_match_in_another_form_is_an_error(given: str) -> None:
    with pytest.raises(InvalidRequest, match="If-Match"):
        Precondition([(b"if-match", given.encode())])


def test_several_if_match_headers_are_one_list() -> None:
    Precondition([(b"if-match", b'"x"'), (b"if-match", TAG.encode())]).check(RECORD)
