from __future__ import annotations

from typing import Any

import httpx2
import pytest

from bridge.http.v1.contract.scalars import PATH_STEP
from bridge.model.durations import DURATION_FORMS, INSTANT_FORMS, error_of_seconds
from bridge.model.errors import Conflict, InvalidRequest, StoreUnavailable
from bridge.model.message import TOPIC_PATTERN, Envelope
from bridge.model.values import Draft, IfExists, Sent
from bridge.settings.settings import Settings

PATH = "/v1/topics/orders/messages"
LIMIT = 86_313_600_000
FIELDS = [
    "body",
    "body_base64",
    "content_type",
    "headers",
    "id",
    "delay",
    "deliver_at",
    "ttl",
    "max_retry",
    "labels",
    "to",
    "if_exists",
    "max_wait",
]
EXCLUSIVE = "exactly one"
TOPIC_FORM = "must be a name or namespace/name, each of 1-100 characters from A-Z a-z 0-9 _ . -"
ID_FORM = '1-200 printable ASCII characters without "/"'
BASE64 = "must be base64 with padding, in the standard alphabet (RFC 4648, section 4)"
NOT_A_HEADER = "the value of a must be a string, a 64-bit number, true or false"
RESERVED = "is reserved for RabbitMQ and the bridge: choose another name"


def _draft(service: Any) -> Draft:
    (_, (draft, _), _) = service.calls[-1]
    assert isinstance(draft, Draft)
    return draft


async def test_an_accepted_message_is_answered_with_201(
    service: Any, client: httpx2.AsyncClient, message_json: dict[str, Any]
) -> None:
    service.answers["upserting.send"] = Sent(message=service.message(), replayed=False)
    response = await client.post(
        PATH,
        json={
            "body": {"order": 1001},
            "id": "o-1001",
            "delay": "15m",
            "ttl": "1h",
            "max_retry": 3,
            "headers": {"a": 1},
        },
    )
    assert response.status_code == 201
    assert response.headers["location"] == "/v1/topics/orders/messages/o-1001"
    assert "idempotent-replay" not in response.headers
    assert response.headers["content-type"] == "application/json"
    assert response.json() == message_json
    assert list(response.json()) == list(message_json)
    assert _draft(service) == Draft(
        topic="orders",
        envelope=Envelope(content_type="application/json", headers={"a": 1}, body=b'{"order":1001}'),
        id="o-1001",
        delay_ms=900_000,
        ttl_ms=3_600_000,
        max_retry=3,
        if_exists=IfExists.SAME,
    )


@pytest.mark.parametrize("body", ["1", "12345678901234567890.10", '"topic-12345e678901"'])
async def test_a_whole_number_is_accepted_in_any_form(service: Any, client: httpx2.AsyncClient, body: str) -> None:
    service.answers["upserting.send"] = Sent(message=service.message(), replayed=False)
    given = f'{{"body":{body},"delay":1.5e3,"ttl":60000.00,"max_retry":3.0e0}}'
    assert (await client.post(PATH, content=given)).status_code == 201
    draft = _draft(service)
    assert (draft.delay_ms, draft.ttl_ms, draft.max_retry) == (1_500, 60_000, 3)
    assert draft.envelope.body == body.encode()


async def test_a_live_id_is_answered_with_its_message(
    service: Any, client: httpx2.AsyncClient, message_json: dict[str, Any]
) -> None:
    service.answers["upserting.send"] = Sent(message=service.message(), replayed=True)
    response = await client.post(PATH, json={"body": 1, "id": "o-1001"})
    assert (response.status_code, response.headers["idempotent-replay"]) == (200, "true")
    assert response.json() == message_json


async def test_the_location_is_percent_encoded(service: Any, client: httpx2.AsyncClient) -> None:
    message = service.message(topic="shop/orders", id="a %?#")
    service.answers["upserting.send"] = Sent(message=message, replayed=False)
    location = (await client.post(PATH, json={"body": 1})).headers["location"]
    assert location == "/v1/topics/shop%2Forders/messages/a%20%25%3F%23"
    service.answers["lookup.get"] = message
    assert (await client.get(location)).status_code == 200
    assert service.calls[-1] == ("lookup.get", ("shop/orders", "a %?#"), {})


@pytest.mark.parametrize(
    ("document", "body", "content_type"),
    [
        (b'{"body": null}', b"null", "application/json"),
        (b'{"body": {"b": [1, 2.50, "\\u00e9"]}}', b'{"b":[1,2.50,"\\u00e9"]}', "application/json"),
        (b'{"body": 123456789012345678901234567890}', b"123456789012345678901234567890", "application/json"),
        (b'{"body": [1e400, 0.12345678901234567890]}', b"[1e400,0.12345678901234567890]", "application/json"),
        (b'{"body": "a", "content_type": "text/plain"}', b"a", "text/plain"),
        (b'{"body": "a", "content_type": null}', b'"a"', "application/json"),
        (b'{"body": {}, "content_type": "application/cloudevents+json; charset=utf-8"}', b"{}", None),
        (b'{"body": "\\u00e9", "content_type": "text/csv; charset=UTF-8"}', "é".encode(), "text/csv; charset=UTF-8"),
        (b'{"body_base64": "AAH/", "content_type": "image/png"}', b"\x00\x01\xff", "image/png"),
        (b'{"body_base64": "", "content_type": "image/png"}', b"", "image/png"),
    ],
)
async def test_consumers_get_the_bytes_of_the_body(
    service: Any, client: httpx2.AsyncClient, document: bytes, body: bytes, content_type: str | None
) -> None:
    service.answers["upserting.send"] = Sent(message=service.message(), replayed=False)
    assert (await client.post(PATH, content=document)).status_code == 201
    assert _draft(service).envelope.body == body
    assert content_type in (None, _draft(service).envelope.content_type)


@pytest.mark.parametrize(
    ("body", "content_type", "shown"),
    [
        (b'{"a":1e400}', "application/json", '"body":{"a":1e400},'),
        (b"not json", "application/json", '"body_base64":"bm90IGpzb24=",'),
        (b"text", "text/plain", '"body":"text",'),
        (b"\xff", "text/plain", '"body_base64":"/w==",'),
        (b"\xe9", "text/plain; charset=latin-1", '"body_base64":"6Q==",'),
        (b"{}", "image/png", '"body_base64":"e30=",'),
        (None, "image/png", '"state":"waiting","content_type"'),
    ],
)
async def test_a_body_is_shown_as_json_text_or_base64(
    service: Any, client: httpx2.AsyncClient, body: bytes | None, content_type: str, shown: str
) -> None:
    service.answers["lookup.get"] = service.message(body=body, content_type=content_type)
    assert shown in (await client.get(f"{PATH}/o-1001")).text


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"delay": 0}, {"delay_ms": 0}),
        ({"delay": "PT1H30M"}, {"delay_ms": 5_400_000}),
        ({"delay": "999d"}, {"delay_ms": LIMIT}),
        ({"delay": None, "deliver_at": "2026-12-01T10:00:00+01:00"}, {"deliver_at_ms": 1_796_115_600_000}),
        ({"deliver_at": 4_000_000_000_000}, {"deliver_at_ms": 4_000_000_000_000}),
        ({"deliver_at": 0}, {"deliver_at_ms": 0}),
        ({"ttl": 1}, {"ttl_ms": 1}),
        ({"max_retry": 0}, {"max_retry": 0}),
    ],
)
async def test_delay_and_deliver_at_reach_the_service_in_milliseconds(
    service: Any, client: httpx2.AsyncClient, given: Any, expected: dict[str, Any]
) -> None:
    service.answers["upserting.send"] = Sent(message=service.message(), replayed=False)
    assert (await client.post(PATH, json={"body": 1, **given})).status_code == 201
    plain = Draft(topic="orders", envelope=Envelope(body=b"1"), if_exists=IfExists.SAME, **expected)
    assert _draft(service) == plain


BAD: list[tuple[Any, list[tuple[str, Any, Any, str]]]] = [
    ([], [("request", [], "an object", "must be an object")]),
    ({"body": 1, "dely": 5}, [("dely", 5, FIELDS, "is unknown: remove it or correct its name")]),
    ({}, [("body", None, EXCLUSIVE, "give exactly one of body and body_base64")] * 1
         + [("body_base64", None, EXCLUSIVE, "give exactly one of body and body_base64")]),
    ({"body": None, "body_base64": "AA=="},
     [("body", None, EXCLUSIVE, "give exactly one of body and body_base64"),
      ("body_base64", "AA==", EXCLUSIVE, "give exactly one of body and body_base64")]),
    ({"body": 1, "delay": 5, "deliver_at": 0},
     [("delay", 5, EXCLUSIVE, "give delay or deliver_at, not both"),
      ("deliver_at", 0, EXCLUSIVE, "give delay or deliver_at, not both")]),
    ({"body": 1, "deliver_at": 1_769_850_000},
     [("deliver_at", 1_769_850_000, INSTANT_FORMS, error_of_seconds(1_769_850_000))]),
    ({"body": 1, "delay": "soon"}, [("delay", "soon", DURATION_FORMS, f"must be {DURATION_FORMS}")]),
    ({"body": 1, "delay": 1.5}, [("delay", 1.5, DURATION_FORMS, f"must be {DURATION_FORMS}")]),
    ({"body": 1, "delay": True}, [("delay", True, DURATION_FORMS, f"must be {DURATION_FORMS}")]),
    ({"body": 1, "delay": -1}, [("delay", -1, DURATION_FORMS, "must not be negative")]),
    ({"body": 1, "delay": "1000d"}, [("delay", "1000d", LIMIT, f"must be at most 999 days ({LIMIT} ms)")]),
    ({"body": 1, "delay": LIMIT + 1}, [("delay", LIMIT + 1, LIMIT, f"must be at most 999 days ({LIMIT} ms)")]),
    ({"body": 1, "delay": 10**30}, [("delay", 10**30, LIMIT, f"must be at most 999 days ({LIMIT} ms)")]),
    ({"body": 1, "deliver_at": "2026-12-01T10:00:00"},
     [("deliver_at", "2026-12-01T10:00:00", INSTANT_FORMS,
       "must have an offset, as in 2026-01-31T09:00:00Z or 2026-01-31T10:00:00+01:00")]),
    ({"body": 1, "id": "a", "if_exists": "put"},
     [("if_exists", "put", "'keep', 'replace', 'extend' or 'error'",
       "must be 'keep', 'replace', 'extend' or 'error'")]),
    ({"body": 1, "if_exists": "keep"}, [("id", None, "a string", "give the id that if_exists is about")]),
    ({"body": 1, "id": "a", "if_exists": "extend"},
     [("max_wait", None, "only with extend", "give max_wait with if_exists extend, and only then")]),
    ({"body": 1, "id": "a", "if_exists": "replace", "max_wait": "1m"},
     [("max_wait", "1m", "only with extend", "give max_wait with if_exists extend, and only then")]),
    ({"body": 1, "id": "a", "if_exists": "extend", "delay": "61s", "max_wait": "1m"},
     [("max_wait", "1m", 61_000, "must be at least the delay")]),
    ({"body": 1, "ttl": 0}, [("ttl", 0, 1, "must be at least 1 ms (1 ms)")]),
    ({"body": 1, "max_retry": "5"}, [("max_retry", "5", "an integer", "must be an integer")]),
    ({"body": 1, "max_retry": True}, [("max_retry", True, "an integer", "must be an integer")]),
    ({"body": 1, "max_retry": 10_001}, [("max_retry", 10_001, 10_000, "must be at most 10000")]),
    ({"body": 1, "id": "a/b"}, [("id", "a/b", ID_FORM, f"must be {ID_FORM}")]),
    ({"body": 1, "id": ""}, [("id", "", ID_FORM, f"must be {ID_FORM}")]),
    ({"body": 1, "id": 5}, [("id", 5, ID_FORM, f"must be {ID_FORM}")]),
    ({"body": 1, "id": "x" * 201}, [("id", "x" * 200 + "…", ID_FORM, f"must be {ID_FORM}")]),
    ({"body": 1, "headers": {"a": None}},
     [("headers", {"a": None}, "string, number, true, false", NOT_A_HEADER)]),
    ({"body": 1, "headers": {"a": 2**63}},
     [("headers", {"a": 2**63}, "string, number, true, false", NOT_A_HEADER)]),
    ({"body": 1, "headers": {"X-Delay-Topic": "a"}},
     [("headers", {"X-Delay-Topic": "a"}, "reserved", f"the name X-Delay-Topic {RESERVED}")]),
    ({"body": 1, "headers": {"BCC": "a"}}, [("headers", {"BCC": "a"}, "reserved", f"the name BCC {RESERVED}")]),
    ({"body": 1, "headers": {"": 1}},
     [("headers", {"": 1}, "1-128 printable ASCII characters",
       "the name '' must be 1-128 printable ASCII characters without spaces")]),
    ({"body": 1, "headers": []},
     [("headers", [], "an object", "must be an object whose values are strings, numbers, true or false")]),
    ({"body": {}, "content_type": "text/plain"},
     [("body", {}, "a string", "must be a string, because the content type is text")]),
    ({"body": "a", "content_type": "image/png"},
     [("content_type", "image/png", "application/json, …+json, text/…",
       "is neither JSON nor UTF-8 text: send the bytes as body_base64")]),
    ({"body_base64": "A"}, [("body_base64", "A", "base64", BASE64)]),
    ({"body_base64": 5}, [("body_base64", 5, "base64", BASE64)]),
    ({f"f{n}": n for n in range(101)}, [("request", 101, 100, "must have at most 100 fields")]),
]  # fmt: skip


@pytest.mark.parametrize(("given", "expected"), BAD)
async def test_a_refusal_names_field_value_and_limit(
    service: Any, client: httpx2.AsyncClient, given: Any, expected: list[tuple[str, Any, Any, str]]
) -> None:
    response = await client.post(PATH, json=given)
    assert response.status_code == 422
    assert [tuple(error.values()) for error in response.json()["errors"]] == expected
    assert list(response.json()["errors"][0]) == ["field", "value", "limit", "message"]
    assert service.calls == []


@pytest.mark.parametrize(
    "name",
    [
        "x-delay-a",
        "X-DEATH",
        "x-death-x",
        "x-first-death-queue",
        "X-Last-Death-Reason",
        "x-opt-a",
        "x-delivery-count",
        "CC",
        "cc",
        "Bcc",
        "with space",
        "é",
        "x" * 129,
    ],
)
async def test_reserved_header_names_are_refused(client: httpx2.AsyncClient, name: str) -> None:
    response = await client.post(PATH, json={"body": 1, "headers": {name: "a"}})
    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == "headers"


@pytest.mark.parametrize("headers", [{str(n): 1 for n in range(65)}, {"a": "é" * 8_192}])
async def test_too_many_headers_are_refused(client: httpx2.AsyncClient, headers: dict[str, Any]) -> None:
    response = await client.post(PATH, json={"body": 1, "headers": headers})
    assert response.status_code == 422
    assert response.json()["errors"][0]["limit"] in (64, 16_384)


@pytest.mark.parametrize("content_type", ["", "json", "a/b/c", "text/plain;", "text/plain\r\nx: y", "a/" + "b" * 254])
async def test_malformed_content_types_are_refused(client: httpx2.AsyncClient, content_type: str) -> None:
    response = await client.post(PATH, json={"body_base64": "", "content_type": content_type})
    assert response.status_code == 422
    assert response.json()["errors"][0]["field"] == "content_type"


@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
async def test_a_body_that_nests_nearly_too_deep_is_sent_or_refused(
    service: Any, client: httpx2.AsyncClient, content_type: str
) -> None:
    service.answers["upserting.send"] = Sent(message=service.message(), replayed=False)
    service.settings = Settings(max_body=10_000)
    # Where the stack ends depends on the callers, and on what is done with the body.
    for depth in range(800, 1_000):
        body = b"[" * depth + b"]" * depth
        document = b'{"content_type":"%b","body":%b}' % (content_type.encode(), body)
        assert (await client.post(PATH, content=document)).status_code in {201, 400, 422}


async def test_a_body_that_nests_too_deep_is_refused(client: httpx2.AsyncClient) -> None:
    response = await client.post(PATH, content=b'{"body": ' + b"[" * 100_000 + b"]" * 100_000 + b"}")
    assert (response.status_code, response.json()["detail"]) == (400, "the body is not valid JSON: it nests too deep")


@pytest.mark.parametrize(
    ("given", "field"), [("%2E", "topic"), ("..%2Fa", "topic"), ("a%2F%2E%2E", "topic"), ("a", "id")]
)
async def test_a_step_in_a_path_is_no_name(service: Any, client: httpx2.AsyncClient, given: str, field: str) -> None:
    response = await client.post(f"/v1/topics/{given}/messages", json={"body": 1, "id": ".."})
    (error,) = response.json()["errors"]
    assert (response.status_code, error["field"], error["message"]) == (422, field, PATH_STEP)
    assert service.calls == []


@pytest.mark.parametrize("topic", ["a*b", "a%23", "%20", "a%2Fb%2Fc", "%2Fa", "x" * 101, "a%0A", "%C3%A9", "a%252Fb"])
async def test_malformed_topic_names_are_refused(service: Any, client: httpx2.AsyncClient, topic: str) -> None:
    response = await client.post(f"/v1/topics/{topic}/messages", json={"body": 1})
    assert response.status_code == 422
    (error,) = response.json()["errors"]
    assert (error["field"], error["limit"], error["message"]) == ("topic", TOPIC_PATTERN, TOPIC_FORM)
    assert service.calls == []


@pytest.mark.parametrize(
    ("given", "size"), [({"body": "x" * 999}, 1_001), ({"body_base64": "AAAA" * 334, "content_type": "a/b"}, 1_002)]
)
async def test_a_body_over_the_limit_is_refused(client: httpx2.AsyncClient, given: dict[str, Any], size: int) -> None:
    response = await client.post(PATH, json=given)
    assert response.status_code == 413
    (field,) = given.keys() - {"content_type"}
    assert response.json()["errors"] == [
        {"field": field, "value": size, "limit": 1_000, "message": f"has {size} bytes; at most 1000 are allowed"}
    ]


async def test_a_batch_answers_each_message_separately(
    service: Any, client: httpx2.AsyncClient, message_json: dict[str, Any]
) -> None:
    late = InvalidRequest.of("deliver_at", 9, LIMIT, "too late")
    sent = Sent(message=service.message(), replayed=False)
    service.answers["upserting.send_many"] = [
        sent, Sent(message=service.message(), replayed=True), late, StoreUnavailable("away"),
        Conflict("no", state="acked"),
    ]  # fmt: skip
    items = [
        {"body": 1},
        {"body": 1, "dely": 5},
        {"body": 2},
        {"body": 3},
        7,
        {"body": "x" * 999},
        {"body": 4},
        {"body": 5},
    ]
    response = await client.post(f"{PATH}/batch", json={"messages": items})
    assert response.status_code == 200
    results = response.json()["results"]
    assert [result["status"] for result in results] == [201, 422, 200, 422, 422, 413, 503, 409]
    assert results[0] == {"status": 201, "message": message_json}
    assert results[2] == {"status": 200, "message": message_json}
    fields = [[error["field"] for error in result.get("error", {"errors": []})["errors"]] for result in results]
    assert fields == [
        [],
        ["messages.1.dely"],
        [],
        ["messages.3.deliver_at"],
        ["messages.4"],
        ["messages.5.body"],
        [],
        [],
    ]
    assert results[7]["error"]["state"] == "acked"
    assert results[6]["error"]["retry_after_s"] == 1
    (_, (drafts, _), _) = service.calls[-1]
    assert [draft.envelope.body for draft in drafts] == [b"1", b"2", b"3", b"4", b"5"]


async def test_a_batch_without_a_valid_message_does_not_reach_the_service(
    service: Any, client: httpx2.AsyncClient
) -> None:
    response = await client.post(f"{PATH}/batch", json={"messages": [{}]})
    assert [result["status"] for result in response.json()["results"]] == [422]
    assert service.calls == []


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ("messages", None, None, "is required")),
        ({"messages": []}, ("messages", [], 1, "must have at least 1 entries")),
        ({"messages": {}}, ("messages", {}, "a list", "must be a list")),
        ({"messages": [{}] * 1_001}, ("messages", None, 1_000, "must have at most 1000 entries")),
        ({"messages": [{}], "x": 1}, ("x", 1, ["messages"], "is unknown: remove it or correct its name")),
    ],
)
async def test_a_malformed_batch_is_refused_as_a_whole(
    client: httpx2.AsyncClient, given: Any, expected: tuple[Any, ...]
) -> None:
    response = await client.post(f"{PATH}/batch", json=given)
    assert response.status_code == 422
    error = response.json()["errors"][0]
    assert (error["field"], error["limit"], error["message"]) == (expected[0], *expected[2:])
