"""Tests what the Python client sends: paths, durations, instants, bodies and headers."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from delaybridge_client import UNSET, Backoff, Filter, InvalidArgument, NewMessage, encode, operations
from delaybridge_client.sender import USER_AGENT, Settings
from tests.clients.python.scripted import URL, Scripted, answer, problem

MS = timedelta(milliseconds=1)
BERLIN = timezone(timedelta(hours=1))


@pytest.mark.parametrize(
    ("duration", "expected"),
    [
        (timedelta(), 0),
        (timedelta(hours=2), 7_200_000),
        (timedelta(milliseconds=1, microseconds=1), 2),
        (timedelta(days=999), 86_313_600_000),
        (timedelta(milliseconds=-5), -5),  # the bridge names field and limit
    ],
)
def test_duration_is_sent_in_milliseconds_and_never_shorter(duration: timedelta, expected: int) -> None:
    assert encode.milliseconds(duration) == expected


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (datetime(2026, 12, 24, 18, tzinfo=BERLIN), "2026-12-24T17:00:00.000Z"),
        (datetime(2026, 12, 24, 17, 0, 0, 1, tzinfo=UTC), "2026-12-24T17:00:00.001Z"),
        (datetime(2026, 12, 24, 23, 59, 59, 999_999, tzinfo=UTC), "2026-12-25T00:00:00.000Z"),
        (datetime(1969, 12, 31, 23, 59, 59, 999_500, tzinfo=UTC), "1970-01-01T00:00:00.000Z"),
    ],
)
def test_instant_is_sent_in_utc_and_never_earlier(moment: datetime, expected: str) -> None:
    assert encode.instant(moment, "deliver_at") == expected


def test_datetime_without_a_time_zone_is_refused_by_name(scripted: Scripted) -> None:
    with scripted.sync_client() as client:
        with pytest.raises(InvalidArgument, match="deliver_at: 2026-12-24T18:00:00 has no time zone"):
            client.send("orders", 1, deliver_at=datetime(2026, 12, 24, 18))  # noqa: DTZ001 - that is the test
        with pytest.raises(InvalidArgument, match=r"messages\.1\.deliver_at"):
            client.send_many("orders", [NewMessage(1), NewMessage(2, deliver_at=datetime(2026, 12, 24))])  # noqa: DTZ001
        with pytest.raises(InvalidArgument, match="due_after"):
            client.search(Filter(due_after=datetime(2026, 12, 24)))  # noqa: DTZ001
    assert scripted.requests == []


@pytest.mark.parametrize("body", [{"at": datetime(2026, 12, 24, tzinfo=UTC)}, float("nan"), object(), {1, 2}])
def test_body_that_json_can_not_express_is_refused(scripted: Scripted, body: Any) -> None:
    with scripted.sync_client() as client, pytest.raises(InvalidArgument, match="can't be written as JSON"):
        client.send("orders", body)
    assert scripted.requests == []


@pytest.mark.parametrize(
    ("topic", "message_id", "expected"),
    [
        ("orders", "o-1", "/delay/v1/topics/orders/messages/o-1"),
        ("shop/orders", "a b%c?d#e", "/delay/v1/topics/shop%2Forders/messages/a%20b%25c%3Fd%23e"),
        ("orders", "..", "/delay/v1/topics/orders/messages/%2E%2E"),
        ("orders", "o-1~dead3", "/delay/v1/topics/orders/messages/o-1~dead3"),
    ],
)
def test_names_in_a_path_are_one_segment_each(scripted: Scripted, topic: str, message_id: str, expected: str) -> None:
    with scripted.sync_client() as client:
        client.look_up(topic, message_id)
    assert scripted.requests[0].url.raw_path.decode() == expected


def test_send_has_every_field(scripted: Scripted) -> None:
    with scripted.sync_client() as client:
        client.send(
            "orders",
            {"order": 1},
            id="o-1",
            delay=timedelta(minutes=15),
            ttl=timedelta(days=1),
            max_retry=0,
            headers={"tenant": "t-7", "urgent": True},
            labels={"customer": "42"},
        )
    assert scripted.bodies == [
        {
            "body": {"order": 1},
            "id": "o-1",
            "delay": 900_000,
            "ttl": 86_400_000,
            "max_retry": 0,
            "headers": {"tenant": "t-7", "urgent": True},
            "labels": {"customer": "42"},
        }
    ]


@pytest.mark.parametrize("body", [b"\x00\xff", bytearray(b"\x00\xff"), memoryview(b"\x00\xff")])
def test_bytes_are_sent_in_base64(scripted: Scripted, body: Any) -> None:
    with scripted.sync_client() as client:
        client.send("orders", body, id="o-1")
    encoded = base64.b64encode(b"\x00\xff").decode()
    assert scripted.bodies == [{"body_base64": encoded, "id": "o-1", "content_type": "application/octet-stream"}]


def test_null_is_a_body(scripted: Scripted) -> None:
    with scripted.sync_client() as client:
        client.send("orders", None, id="o-1")
    assert scripted.bodies == [{"body": None, "id": "o-1"}]


def test_messages_without_ids_get_different_ids_that_sort() -> None:
    messages = [NewMessage(number) for number in range(100)]
    ids = [message.id for message in messages]
    assert len(set(ids)) == 100
    assert [one[:12] for one in ids] == sorted(one[:12] for one in ids)


def test_patch_of_a_policy_tells_null_from_not_given(scripted: Scripted) -> None:
    operation = operations.patch_policy("orders", ttl=None, lease=timedelta(minutes=2), backoff=UNSET)
    assert operation.body == {"ttl": None, "lease": timedelta(minutes=2)}
    growing = operations.put_policy("orders", backoff=Backoff(first=timedelta(seconds=1), max=timedelta(minutes=10)))
    assert encode.document(growing.body or {}) == b'{"backoff":{"first":1000,"max":600000}}'
    steps = operations.put_policy("orders", backoff=Backoff(steps=(timedelta(seconds=5), timedelta(minutes=1))))
    assert encode.document(steps.body or {}) == b'{"backoff":[5000,60000]}'


def test_query_repeats_states_and_labels(scripted: Scripted) -> None:
    wanted = Filter(
        topic="shop/*",
        state=["waiting", "ready"],
        labels={"customer": "42", "kind": "a:b"},
        due_before=datetime(2026, 12, 24, tzinfo=UTC),
    )
    assert encode.parameters(operations.search(wanted, order="desc", limit=5).query) == [
        ("topic", "shop/*"),
        ("state", "waiting"),
        ("state", "ready"),
        ("due_before", "2026-12-24T00:00:00.000Z"),
        ("label", "customer:42"),
        ("label", "kind:a:b"),
        ("order", "desc"),
        ("limit", "5"),
    ]
    assert encode.parameters(operations.delete("orders", "o-1", release=True).query) == [("release", "true")]


def test_token_and_user_agent_are_sent(scripted: Scripted) -> None:
    with scripted.sync_client(token="dlb_secret") as client:
        client.look_up("orders", "o-1")
    (request,) = scripted.requests
    assert request.headers["authorization"] == "Bearer dlb_secret"
    assert request.headers["user-agent"] == USER_AGENT
    assert USER_AGENT.startswith("delaybridge-client/")
    assert str(request.url).startswith(URL)


@pytest.mark.parametrize("url", ["", "127.0.0.1:8080", "ftp://host", "http://", "http://host?x=1", "http://host#f", 5])
def test_wrong_address_is_refused_at_once(url: Any) -> None:
    with pytest.raises(InvalidArgument, match="url"):
        Settings(url=url)


def test_a_change_has_what_is_given_and_its_precondition(scripted: Scripted) -> None:
    scripted.answers = [answer(headers={"ETag": '"new"'})]
    with scripted.sync_client() as client:
        changed = client.move(
            "orders", "o-1", body={"n": 2}, ttl=timedelta(minutes=1), labels={}, max_retry=0, if_match='"old"'
        )
        client.move("orders", "o-1", body=b"x", headers={"a": 1})
        client.delete("orders", "o-1", if_match='"new"')
    first, second, third = scripted.requests
    assert json.loads(first.content) == {"body": {"n": 2}, "ttl": 60_000, "labels": {}, "max_retry": 0}
    assert (first.headers["if-match"], changed.etag) == ('"old"', '"new"')
    assert json.loads(second.content) == {
        "body_base64": "eA==",
        "content_type": "application/octet-stream",
        "headers": {"a": 1},
    }
    assert "if-match" not in second.headers
    assert third.headers["if-match"] == '"new"'


def test_a_send_says_what_to_do_with_the_message_of_its_id(scripted: Scripted) -> None:
    with scripted.sync_client() as client:
        client.send(
            "orders", 1, id="o-1", delay=timedelta(seconds=5), if_exists="extend", max_wait=timedelta(minutes=1)
        )
    assert json.loads(scripted.requests[0].content) == {
        "body": 1, "id": "o-1", "delay": 5_000, "if_exists": "extend", "max_wait": 60_000,
    }  # fmt: skip


def test_requests_with_a_key_are_the_same_each_time(scripted: Scripted) -> None:
    with scripted.sync_client() as client:
        for _ in range(2):
            client.send("orders", 1, idempotency_key='a "b" \\c')
        scripted.answers = [answer({"replayed": 3})]
        client.replay_many("orders", idempotency_key="k-1")
    first, second, third = scripted.requests
    assert first.content == second.content == b'{"body":1}'
    assert first.headers["idempotency-key"] == '"a \\"b\\" \\\\c"'
    assert third.headers["idempotency-key"] == '"k-1"'


def test_a_request_under_way_is_tried_again(scripted: Scripted) -> None:
    scripted.answers = [problem(409, "request-under-way", headers={"Retry-After": "0"}), answer()]
    with scripted.sync_client() as client:
        assert client.send("orders", 1, idempotency_key="k-1").id == "o-1"
    assert len(scripted.requests) == 2
