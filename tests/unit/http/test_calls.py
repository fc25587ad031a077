"""Tests every operation but sending: the call of the service, the answer, and refusals before the call."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import httpx2
import pytest
from msgspec import to_builtins

from bridge.broker.declared.findings import Finding
from bridge.http.v1.topics.policy import policy_out
from bridge.model.durations import DURATION_FORMS
from bridge.model.errors import LeaseEnded, NotFound
from bridge.model.message import State
from bridge.model.values import (
    AckResult,
    AckVerdict,
    Backoff,
    Leased,
    Nack,
    Page,
    Policy,
    Release,
    TopicInfo,
)
from bridge.service.protocol import receipts
from tests.effective import effective
from tests.records import record

T = "/v1/topics/orders"
M = f"{T}/messages/o-1001"
POLICY_JSON = {
    "release": "checked",
    "max_retry": None,
    "ttl_ms": None,
    "lease_ms": None,
    "backoff": None,
    "paused": False,
    "keep_body_max": None,
}
INFO = TopicInfo(
    topic="orders",
    counts={"waiting": 2},
    overdue=1,
    waiting_by_due={"1m": 2},
    lateness_ms={"p50": 1.5, "p99": None},
    policy=effective(Policy(max_retry=7)),
    ready_queue="ready.orders",
    dead_queue="dead.orders",
)
EFFECTIVE_JSON = {
    "max_retry": 7,
    "ttl_ms": None,
    "lease_ms": 30_000,
    "backoff": {"first_ms": 0, "factor": 1.0, "max_ms": 0},
    "jitter": 0.25,
    "defaults": ["ttl_ms", "lease_ms", "backoff"],
}
INFO_JSON = {
    "topic": "orders",
    "counts": {"waiting": 2},
    "overdue": 1,
    "waiting_by_due": {"1m": 2},
    "lateness_ms": {"p50": 1.5, "p99": None},
    "policy": POLICY_JSON | {"max_retry": 7},
    "effective": EFFECTIVE_JSON,
    "queues": {"ready": "ready.orders", "dead": "dead.orders"},
}
_PAGE = dict[str, Any](states=(), due_after_ms=None, due_before_ms=None, limit=100, cursor=None)


def receipt(message_id: str) -> str:
    return receipts.make(receipts.Receipt(message_id, 1, 1))


@pytest.mark.parametrize(
    ("method", "path", "given", "asked", "named"),
    [
        ("GET", M, None, "lookup.get", {}),
        ("DELETE", M, None, "changing.delete", {"release": False, "seen": ""}),
        ("DELETE", f"{M}?release=true", None, "changing.delete", {"release": True, "seen": ""}),
        ("POST", f"{M}/nack", None, "settling.nack", {"receipt": None, "delay_ms": None, "reason": None}),
        ("POST", f"{M}/nack", {"receipt": "r", "delay": "1s", "reason": "x" * 500}, "settling.nack",
         {"receipt": "r", "delay_ms": 1_000, "reason": "x" * 500}),
        ("POST", f"{M}/extend", {"lease": "12h"}, "settling.extend", {"receipt": None, "lease_ms": 43_200_000}),
        ("POST", f"{T}/dead/o-1001/replay", None, "dead.replay", {}),
        ("DELETE", f"{T}/dead/o-1001", None, "dead.drop", {}),
    ],
)  # fmt: skip
async def test_an_operation_on_one_message_asks_the_service_and_answers_the_message(
    *,
    service: Any,
    client: httpx2.AsyncClient,
    message_json: dict[str, Any],
    method: str,
    path: str,
    given: Any,
    asked: str,
    named: dict[str, Any],
) -> None:
    service.answers[asked] = service.message()
    response = await client.request(method, path, json=given) if given else await client.request(method, path)
    assert (response.status_code, response.json()) == (200, message_json)
    assert service.calls == [(asked, ("orders", "o-1001"), named)]


@pytest.mark.parametrize(("given", "receipt"), [({}, None), ({"receipt": "r"}, "r"), ({"receipt": None}, None)])
async def test_an_ack_passes_its_receipt_to_the_service(
    service: Any, client: httpx2.AsyncClient, given: Any, receipt: str | None
) -> None:
    service.answers["settling.ack"] = service.message(state=State.ACKED, ended_ms=1_796_115_600_005, reason="done")
    response = await client.post(f"{M}/ack", json=given)
    answered = response.json()
    assert [answered[name] for name in ("state", "ended_at", "reason")] == ["acked", "2026-12-01T09:00:00.005Z", "done"]
    assert service.calls == [("settling.ack", ("orders", "o-1001", receipt), {})]


@pytest.mark.parametrize(("how", "asked"), [("receipts", "ack_receipts"), ("ids", "ack_delivered")])
async def test_an_ack_of_many_answers_one_result_each(
    service: Any, client: httpx2.AsyncClient, how: str, asked: str
) -> None:
    service.answers[f"settling.{asked}"] = [
        AckResult(id="a", verdict=AckVerdict.ACKED),
        AckResult(id=None, verdict=AckVerdict.UNKNOWN),
    ]
    response = await client.post(f"{T}/ack", json={how: ["a", "b"]})
    assert response.json() == {"results": [{"id": "a", "result": "acked"}, {"id": None, "result": "unknown"}]}
    assert service.calls == [(f"settling.{asked}", ("orders", ["a", "b"]), {})]


@pytest.mark.parametrize(
    ("path", "given", "topics", "named"),
    [
        (f"{T}/pull", None, ["orders"], {"limit": 1, "wait_ms": 0, "lease_ms": None}),
        (f"{T}/pull", {"max": 100, "wait": "1ms", "lease": "1s"}, ["orders"],
         {"limit": 100, "wait_ms": 1, "lease_ms": 1_000}),
        ("/v1/pull", {"topics": ["urgent", "shop/a"], "wait": 60_000}, ["urgent", "shop/a"],
         {"limit": 1, "wait_ms": 60_000, "lease_ms": None}),
    ],
)  # fmt: skip
async def test_a_pull_passes_its_limits_and_answers_messages_with_receipts(
    *,
    service: Any,
    client: httpx2.AsyncClient,
    message_json: dict[str, Any],
    path: str,
    given: Any,
    topics: list[str],
    named: dict[str, Any],
) -> None:
    service.answers["pulling.pull"] = [Leased(message=service.message(), receipt="r")]
    response = await client.post(path, json=given) if given else await client.post(path)
    assert response.json() == {"messages": [message_json | {"receipt": "r"}]}
    assert service.calls == [("pulling.pull", (topics,), named)]


async def test_a_pull_settles_earlier_messages_and_answers_each(service: Any, client: httpx2.AsyncClient) -> None:
    service.answers |= {
        "pulling.pull": [],
        "settling.ack_receipts": [
            AckResult(id="a", verdict=AckVerdict.ACKED),
            AckResult(id="b", verdict=AckVerdict.STALE),
            AckResult(id=None, verdict=AckVerdict.UNKNOWN),
        ],
        "settling.nack_receipts": [record(), LeaseEnded("it has ended"), NotFound("there is none")],
    }
    nacks = [{"receipt": receipt("c"), "delay": "30s", "reason": "why"}, {"receipt": receipt("d")}, {"receipt": "x"}]
    response = await client.post(f"{T}/pull", json={"ack": ["r-a", "r-b", "x"], "nack": nacks})
    assert response.json() == {
        "messages": [],
        "acked": [
            {"id": "a", "result": "acked"},
            {"id": "b", "result": "stale"},
            {"id": None, "result": "unknown"},
        ],
        "nacked": [
            {"id": "c", "result": "nacked"},
            {"id": "d", "result": "stale"},
            {"id": None, "result": "unknown"},
        ],
    }
    wanted = [
        Nack(receipt=receipt("c"), delay_ms=30_000, reason="why"),
        Nack(receipt=receipt("d")),
        Nack(receipt="x"),
    ]
    assert ("settling.ack_receipts", ("orders", ["r-a", "r-b", "x"]), {}) in service.calls
    assert ("settling.nack_receipts", ("orders", wanted), {}) in service.calls


async def test_a_pull_from_several_topics_settles_in_each(service: Any, client: httpx2.AsyncClient) -> None:
    async def ack(topic: str, receipts: Sequence[str]) -> list[AckResult]:
        return [AckResult(id=f"{one} of {topic}", verdict=AckVerdict.ACKED) for one in receipts]

    service.answers |= {"pulling.pull": [], "settling.ack_receipts": ack}
    acks = [{"topic": topic, "receipt": one} for topic, one in (("b", "1"), ("a", "2"), ("b", "3"))]
    response = await client.post("/v1/pull", json={"topics": ["a", "b"], "ack": acks})
    answered = response.json()
    assert [one["id"] for one in answered["acked"]] == ["1 of b", "2 of a", "3 of b"]
    assert "nacked" not in answered


async def test_a_pull_with_empty_lists_answers_empty_lists(service: Any, client: httpx2.AsyncClient) -> None:
    service.answers["pulling.pull"] = []
    response = await client.post(f"{T}/pull", json={"ack": [], "nack": []})
    assert response.json() == {"messages": [], "acked": [], "nacked": []}


@pytest.mark.parametrize(
    ("path", "given", "field", "limit"),
    [
        (f"{T}/pull", {"ack": ["r"] * 1_001}, "ack", 1_000),
        (f"{T}/pull", {"ack": ["r", 7]}, "ack.1", "a string"),
        (f"{T}/pull", {"ack": "r"}, "ack", "a list"),
        (f"{T}/pull", {"nack": [{"receipt": "r"}] * 101}, "nack", 100),
        (f"{T}/pull", {"nack": [{"receipt": "r"}, {}]}, "nack.1.receipt", None),
        (f"{T}/pull", {"nack": [{"receipt": "r", "delay": "soon"}]}, "nack.0.delay", DURATION_FORMS),
        (f"{T}/pull", {"nack": [{"receipt": "r", "topic": "a"}]}, "nack.0.topic", None),
        ("/v1/pull", {"topics": ["a"], "ack": ["r"]}, "ack.0", "an object"),
        ("/v1/pull", {"topics": ["a"], "ack": [{"topic": "b", "receipt": "r"}]}, "ack.0.topic", ["a"]),
        ("/v1/pull", {"topics": ["a"], "nack": [{"topic": "a", "receipt": "r"}, {"topic": "b", "receipt": "r"}]},
         "nack.1.topic", ["a"]),
    ],
)  # fmt: skip
async def test_a_pull_refuses_a_wrong_list_by_name_and_limit(
    *, service: Any, client: httpx2.AsyncClient, path: str, given: Any, field: str, limit: Any
) -> None:
    response = await client.post(path, json=given)
    (error,) = response.json()["errors"]
    assert (response.status_code, error["field"], error["limit"]) == (422, field, limit)
    assert service.calls == []


@pytest.mark.parametrize(
    ("query", "changed"),
    [
        ("", {}),
        ("?state=waiting&state=dead", {"states": (State.WAITING, State.DEAD)}),
        ("?state=waiting,dead,", {"states": (State.WAITING, State.DEAD)}),
        (
            "?due_after=400000000000&due_before=2026-12-01T10:00:00+01:00",
            {"due_after_ms": 400_000_000_000, "due_before_ms": 1_796_115_600_000},
        ),
        ("?due_before=2026-12-01T10:00:00%2B01:00", {"due_before_ms": 1_796_115_600_000}),
        ("?limit=1000&cursor=a%2Bb", {"limit": 1_000, "cursor": "a+b"}),
    ],
)
async def test_a_list_passes_its_filters_and_answers_a_page(
    service: Any, client: httpx2.AsyncClient, message_json: dict[str, Any], query: str, changed: dict[str, Any]
) -> None:
    service.answers["lookup.page"] = Page(items=[service.message()], next_cursor="n")
    response = await client.get(f"{T}/messages{query}")
    assert response.json() == {"items": [message_json], "next_cursor": "n"}
    assert service.calls == [("lookup.page", ("orders",), _PAGE | changed)]


async def test_dead_letters_are_listed_replayed_and_dropped(
    service: Any, client: httpx2.AsyncClient, message_json: dict[str, Any]
) -> None:
    service.answers |= {
        "dead.page": Page(items=[service.message()], next_cursor=None), "dead.replay_many": 3, "dead.drop_many": 4,
        "dead.check_topic": None,
    }  # fmt: skip
    page = await client.get(f"{T}/dead?limit=5&cursor=c")
    assert page.json() == {"items": [message_json], "next_cursor": None}
    assert (await client.post(f"{T}/dead/replay", json={"max": 7})).json() == {"replayed": 3}
    assert (await client.delete(f"{T}/dead?max=8")).json() == {"dropped": 4}
    assert (await client.delete(f"{T}/dead")).json() == {"dropped": 4}
    assert [call for call in service.calls if call[0] != "dead.check_topic"] == [
        ("dead.page", ("orders",), {"limit": 5, "cursor": "c"}),
        ("dead.replay_many", ("orders", 7), {}),
        ("dead.drop_many", ("orders", 8), {}),
        ("dead.drop_many", ("orders", 100), {}),
    ]


async def test_topics_are_listed_and_looked_up(service: Any, client: httpx2.AsyncClient) -> None:
    service.answers |= {"topics.infos": [INFO], "topics.info": INFO, "topics.remove": None, "given_names.remove": None}
    assert (await client.get("/v1/topics")).json() == {"topics": [INFO_JSON], "next_cursor": None}
    assert (await client.get(T)).json() == INFO_JSON
    assert (await client.delete(T)).json() == {"topic": "orders", "removed": True}
    assert (await client.delete(f"{T}?force=true")).status_code == 200
    assert service.calls[2:] == [
        ("topics.remove", ("orders",), {"force": False}),
        ("given_names.remove", ("orders",), {}),
        ("topics.remove", ("orders",), {"force": True}),
        ("given_names.remove", ("orders",), {}),
    ]


@pytest.mark.parametrize(
    ("given", "policy", "answered"),
    [
        ({}, Policy(), {}),
        (
            {"release": "direct", "max_retry": 0, "ttl": "1d", "lease": 1_000, "paused": True, "keep_body_max": 9},
            Policy(
                release=Release.DIRECT, max_retry=0, ttl_ms=86_400_000, lease_ms=1_000, paused=True, keep_body_max=9
            ),
            {
                "release": "direct",
                "max_retry": 0,
                "ttl_ms": 86_400_000,
                "lease_ms": 1_000,
                "paused": True,
                "keep_body_max": 9,
            },
        ),
        (
            {"backoff": {"first": "1s", "factor": 3, "max": "10m"}},
            Policy(backoff=Backoff(first_ms=1_000, factor=3.0, max_ms=600_000)),
            {"backoff": {"first_ms": 1_000, "factor": 3.0, "max_ms": 600_000}},
        ),
        ({"backoff": [0, "1m"]}, Policy(backoff=Backoff(steps_ms=(0, 60_000))), {"backoff": {"steps_ms": [0, 60_000]}}),
    ],
)
async def test_a_policy_is_stored_as_requested(
    service: Any, client: httpx2.AsyncClient, given: Any, policy: Policy, answered: dict[str, Any]
) -> None:
    service.answers["topics.put_policy"] = policy
    response = await client.put(T, json=given)
    assert (response.status_code, response.json()) == (200, POLICY_JSON | answered)
    assert service.calls == [("topics.put_policy", ("orders", policy, None), {})]


GROWING = Backoff(first_ms=1_000, factor=3.0, max_ms=600_000)
STEPS = Backoff(steps_ms=(0, 60_000))
SET = Policy(release=Release.DIRECT, max_retry=5, ttl_ms=60_000, lease_ms=30_000, backoff=GROWING, paused=True)


@pytest.mark.parametrize(
    ("patch", "former", "patched"),
    [
        ({}, SET, SET),
        ({"lease": "2m"}, SET, replace(SET, lease_ms=120_000)),
        ({"max_retry": 0, "paused": False}, SET, replace(SET, max_retry=0, paused=False)),
        (dict.fromkeys(("release", "max_retry", "ttl", "lease", "backoff", "paused")), SET, Policy()),
        ({"backoff": {"first": "2s"}}, SET, replace(SET, backoff=replace(GROWING, first_ms=2_000))),
        ({"backoff": {"factor": None}}, SET, replace(SET, backoff=replace(GROWING, factor=2.0))),
        ({"backoff": {}}, SET, SET),
        ({"backoff": [0, "1m"]}, SET, replace(SET, backoff=STEPS)),
        (
            {"backoff": {"first": 5, "max": 9}},
            Policy(backoff=STEPS),
            Policy(backoff=Backoff(first_ms=5, factor=2, max_ms=9)),
        ),
        ({"ttl": 1}, Policy(backoff=STEPS), Policy(backoff=STEPS, ttl_ms=1)),
    ],
)
async def test_a_patch_changes_only_the_fields_that_it_has(
    service: Any, client: httpx2.AsyncClient, patch: Any, former: Policy, patched: Policy
) -> None:
    service.answers["topics.change_policy"] = _changing(former)
    response = await client.patch(T, json=patch)
    assert (response.status_code, response.json()) == (200, to_builtins(policy_out(patched)))


@pytest.mark.parametrize(("call", "paused"), [("pause", True), ("resume", False)])
async def test_pause_and_resume_change_no_other_field(
    service: Any, client: httpx2.AsyncClient, call: str, paused: bool
) -> None:
    for former in (SET, replace(SET, paused=False)):
        service.answers["topics.change_policy"] = _changing(former)
        response = await client.post(f"{T}/{call}")
        assert (response.status_code, response.json()) == (200, to_builtins(policy_out(replace(SET, paused=paused))))


async def test_patch_that_leaves_a_growing_backoff_incomplete_is_refused(
    service: Any, client: httpx2.AsyncClient
) -> None:
    service.answers["topics.change_policy"] = _changing(Policy(backoff=STEPS))
    response = await client.patch(T, json={"backoff": {"first": "1s"}})
    assert response.status_code == 422
    (error,) = response.json()["errors"]
    assert (error["field"], error["message"]) == ("backoff.max", "is required")


def _changing(former: Policy) -> Callable[..., Coroutine[Any, Any, Policy]]:
    async def change_policy(topic: str, change: Callable[[Policy], Policy]) -> Policy:
        return change(former)

    return change_policy


_ONE = "exactly one"
_CHANGEABLE = [
    *("body", "body_base64", "content_type", "headers", "delay", "deliver_at", "ttl", "max_retry", "labels"),
]
_STATES = ["waiting", "ready", "leased", "acked", "expired", "dead", "deleted"]


@pytest.mark.parametrize(
    ("method", "path", "given", "expected"),
    [
        ("PATCH", M, {}, ("request", {}, _CHANGEABLE, "give at least one field to change")),
        ("PATCH", M, {"delay": 1, "deliver_at": 0}, ("delay", 1, _ONE, "give delay or deliver_at, not both")),
        ("PATCH", M, {"body": 1, "body_base64": ""}, ("body", 1, _ONE, "give body or body_base64, not both")),
        ("PATCH", M, {"id": "b"}, ("id", "b", _CHANGEABLE, "is unknown: remove it or correct its name")),
        ("POST", f"{T}/pull", {"max": 0}, ("max", 0, 1, "must be at least 1")),
        ("POST", f"{T}/pull", {"max": 101}, ("max", 101, 100, "must be at most 100")),
        ("POST", f"{T}/pull", {"wait": "61s"}, ("wait", "61s", 60_000, "must be at most 60 s (60000 ms)")),
        ("POST", f"{T}/pull", {"lease": 999}, ("lease", 999, 1_000, "must be at least 1 s (1000 ms)")),
        ("POST", f"{T}/pull", {"lease": "13h"}, ("lease", "13h", 43_200_000, "must be at most 12 h (43200000 ms)")),
        ("POST", "/v1/pull", {}, ("topics", None, None, "is required")),
        ("POST", "/v1/pull", {"topics": []}, ("topics", [], 1, "must have at least 1 entries")),
        ("POST", f"{T}/ack", {}, ("receipts", None, _ONE, "give exactly one of receipts and ids")),
        ("POST", f"{T}/ack", {"ids": ["a"], "receipts": ["b"]},
         ("receipts", ["b"], _ONE, "give exactly one of receipts and ids")),
        ("POST", f"{T}/ack", {"receipts": ["a", 5]}, ("receipts.1", 5, "a string", "must be a string")),
        ("POST", f"{M}/extend", None, ("lease", None, None, "is required")),
        ("POST", f"{M}/nack", {"reason": "x" * 501},
         ("reason", "x" * 200 + "…", 500, "must have at most 500 characters")),
        ("DELETE", f"{M}?release=yes", None, ("release", "yes", "'true' or 'false'", "must be 'true' or 'false'")),
        ("DELETE", f"{M}?relase=true", None,
         ("relase", "true", ["release"], "is unknown: remove it or correct its name")),
        ("GET", "/v1/topics?x=1", None,
         ("x", "1", ["prefix", "limit", "cursor"], "is unknown: remove it or correct its name")),
        ("GET", f"{T}/messages?limit=0", None, ("limit", "0", 1, "must be at least 1")),
        ("GET", f"{T}/messages?limit=1001", None, ("limit", "1001", 1_000, "must be at most 1000")),
        ("GET", f"{T}/messages?limit=ten", None, ("limit", "ten", "an integer", "must be an integer")),
        ("GET", f"{T}/messages?state=lost", None,
         ("state", "lost", _STATES, "has no state 'lost'; the states are " + ", ".join(_STATES))),
        ("GET", f"{T}/messages?cursor=a&cursor=b", None, ("cursor", ["a", "b"], "a string", "must be a string")),
        ("PUT", T, {"release": "fast"}, ("release", "fast", "'checked' or 'direct'", "must be 'checked' or 'direct'")),
        ("PUT", T, {"paused": 1}, ("paused", 1, "true or false", "must be true or false")),
        ("PUT", T, {"backoff": [1, "1000d"]},
         ("backoff.1", "1000d", 86_313_600_000, "must be at most 999 days (86313600000 ms)")),
        ("PUT", T, {"backoff": {"first": 1, "max": 5, "factor": 0.5}},
         ("backoff.factor", 0.5, 1.0, "must be at least 1")),
        ("PUT", T, {"backoff": {"first": 1, "max": 5, "factr": 2}},
         ("backoff.factr", 2, None, "is unknown: remove it or correct its name")),
        ("PATCH", T, {"paused": 1}, ("paused", 1, "true or false", "must be true or false")),
        ("PATCH", T, {"lease": 999}, ("lease", 999, 1_000, "must be at least 1 s (1000 ms)")),
        ("PATCH", T, {"backoff": {"factr": None}},
         ("backoff.factr", None, None, "is unknown: remove it or correct its name")),
        ("PUT", T, {"backoff": "fast"}, ("backoff", "fast", "an object", "must be an object")),
        ("POST", f"{T}/dead/replay", {"max": 1.5}, ("max", 1.5, "an integer", "must be an integer")),
        ("POST", f"{T}/dead/replay", {"max": [[[[]]]]},
         ("max", [[[[]]]], "an integer", "must be an integer")),
        ("POST", f"{T}/messages", {"body": 1, "delay": "\u0665m"},
         ("delay", "\u0665m", DURATION_FORMS, f"must be {DURATION_FORMS}")),
        ("GET", f"{T}/messages?limit=-1", None, ("limit", "-1", 1, "must be at least 1")),
        ("GET", f"{T}/messages/%C3%A9", None,
         ("id", "é", '1-200 printable ASCII characters without "/"',
          'must be 1-200 printable ASCII characters without "/"')),
        ("GET", f"{T}/messages/a%2Fb", None,
         ("id", "a/b", '1-200 printable ASCII characters without "/"',
          'must be 1-200 printable ASCII characters without "/"')),
    ],
)  # fmt: skip
async def test_a_refusal_names_field_value_and_limit(
    *, service: Any, client: httpx2.AsyncClient, method: str, path: str, given: Any, expected: tuple[Any, ...]
) -> None:
    response = (
        await client.request(method, path, json=given) if given is not None else await client.request(method, path)
    )
    assert response.status_code == 422
    assert tuple(response.json()["errors"][0].values()) == expected
    assert service.calls == []


@pytest.mark.parametrize(
    ("path", "topic"),
    [
        ("/v1/topics/orders", "orders"),
        ("/v1/topics/shop%2Forders", "shop/orders"),
        ("/v1/topics/shop%2forders", "shop/orders"),
        ("/v1/topics/%6Frders", "orders"),
        ("/v1/namespaces/shop/topics/orders", "shop/orders"),
    ],
)
async def test_a_topic_is_read_from_either_form_of_path(
    service: Any, client: httpx2.AsyncClient, path: str, topic: str
) -> None:
    service.answers |= {"topics.info": INFO, "lookup.get": service.message(), "pulling.pull": []}
    assert (await client.get(path)).status_code == 200
    assert (await client.get(f"{path}/messages/a%25b%20c")).status_code == 200
    assert (await client.post(f"{path}/pull")).status_code == 200
    asked = [(name, given) for name, given, _ in service.calls]
    assert asked == [("topics.info", (topic,)), ("lookup.get", (topic, "a%b c")), ("pulling.pull", ([topic],))]


async def test_readiness_names_the_parts_that_fail(service: Any, client: httpx2.AsyncClient) -> None:
    def health(*, ok: bool, parts: dict[str, str], findings: Sequence[Finding] = ()) -> SimpleNamespace:
        return SimpleNamespace(ok=ok, parts=parts, findings=findings, policies="looked at")

    well, late, lost = {"broker": "ok", "store": "ok"}, Finding("warning", "comes late"), Finding("error", "is lost")
    assert (await client.get("/health/live")).json() == {"status": "ok"}
    service.answers["health"] = health(ok=True, parts=well)
    ready = (await client.get("/health/ready")).json()
    assert ready == {"status": "ok", "parts": well, "policies": "looked at", "findings": []}
    service.answers["health"] = health(ok=True, parts=well, findings=[late])
    ready = (await client.get("/health/ready")).json()
    assert (ready["status"], ready["findings"]) == (
        "degraded",
        [{"severity": "warning", "says": "comes late", "remedy": ""}],
    )
    service.answers["health"] = health(ok=False, parts={**well, "broker": "refused"}, findings=[late, lost])
    response = await client.get("/health/ready")
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    problem = response.json()
    assert (problem["detail"], problem["parts"]) == ("broker: refused, is lost", {"broker": "refused", "store": "ok"})
    assert response.headers["content-type"] == "application/problem+json"


async def test_metrics_are_in_prometheus_text_format(client: httpx2.AsyncClient) -> None:
    response = await client.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain")
    assert "# HELP delaybridge_accepted_total" in response.text
