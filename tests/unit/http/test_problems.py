from __future__ import annotations

import gzip
from typing import Any

import httpx2
import pytest

from bridge.model.errors import (
    BodyNotKept,
    BrokerUnavailable,
    Conflict,
    InvalidRequest,
    LeaseEnded,
    NotFound,
    SendUnderWay,
    StoreUnavailable,
    TopicNotEmpty,
)

_TYPE = "urn:problem-type:delaybridge:"


def _problem(response: httpx2.Response) -> dict[str, Any]:
    assert response.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert problem["status"] == response.status_code
    assert problem.pop("request_id") == response.headers["x-request-id"]
    return problem


@pytest.mark.parametrize(
    ("error", "status", "slug", "more"),
    [
        (NotFound("gone"), 404, "not-found", {}),
        (Conflict("gone", state="acked"), 409, "conflict", {"state": "acked"}),
        (Conflict("gone"), 409, "conflict", {}),
        (BodyNotKept("gone", state="waiting"), 409, "body-not-kept", {"state": "waiting"}),
        (LeaseEnded("gone", state="ready"), 409, "lease-ended", {"state": "ready"}),
        (TopicNotEmpty("gone"), 409, "topic-not-empty", {}),
        (StoreUnavailable("gone"), 503, "unavailable", {"retry_after_s": 1}),
        (BrokerUnavailable("gone"), 503, "unavailable", {"retry_after_s": 1}),
        (SendUnderWay("gone"), 503, "unavailable", {"retry_after_s": 1}),
    ],
)
async def test_each_error_of_the_service_has_its_problem_type(
    *, service: Any, client: httpx2.AsyncClient, error: Exception, status: int, slug: str, more: dict[str, Any]
) -> None:
    service.answers["lookup.get"] = error
    response = await client.get("/v1/topics/orders/messages/o-1001")
    problem = _problem(response)
    assert problem.pop("title")
    assert problem == {"type": _TYPE + slug, "status": status, "detail": "gone", "errors": [], **more}
    assert response.headers.get("retry-after") == ("1" if status == 503 else None)


async def test_a_refusal_by_the_service_names_field_value_and_limit(service: Any, client: httpx2.AsyncClient) -> None:
    service.answers["lookup.page"] = InvalidRequest.of("cursor", "x" * 500, None, "is not one that a page gave")
    problem = _problem(await client.get("/v1/topics/orders/messages?cursor=made-up"))
    assert problem == {
        "type": _TYPE + "invalid-request",
        "title": "The request is not valid",
        "status": 422,
        "detail": "cursor: is not one that a page gave",
        "errors": [
            {"field": "cursor", "value": "x" * 200 + "…", "limit": None, "message": "is not one that a page gave"}
        ],
    }


async def test_an_unexpected_error_is_answered_as_internal(service: Any, client: httpx2.AsyncClient) -> None:
    service.answers["lookup.get"] = RuntimeError("secret")
    response = await client.get("/v1/topics/orders/messages/o-1001", headers={"X-Request-ID": "mine"})
    assert response.headers["x-request-id"] == "mine"
    assert _problem(response) == {
        "type": _TYPE + "internal",
        "title": "The bridge failed",
        "status": 500,
        "detail": "an unexpected error in the bridge: the line of its log with this request_id has the traceback",
        "errors": [],
    }


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"])
@pytest.mark.parametrize(
    "path", ["/v2", "/v2/topics", "/v1/topics/", "/v1/topics//messages", "/v1/topics/a/b/messages"]
)
async def test_an_unknown_path_is_answered_with_404(client: httpx2.AsyncClient, method: str, path: str) -> None:
    assert _problem(await client.request(method, path)) == {
        "type": _TYPE + "no-such-path",
        "title": "No such path",
        "status": 404,
        "detail": f"there is nothing at {path}: see /openapi.json for the paths",
        "errors": [],
    }


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("DELETE", "/", "GET, HEAD, POST"),
        ("POST", "/v1/topics", "GET, HEAD"),
        ("POST", "/v1/topics/orders", "DELETE, GET, HEAD, PATCH, PUT"),
        ("DELETE", "/v1/topics/orders/messages", "GET, HEAD, POST"),
        ("PUT", "/v1/topics/orders/messages/o-1", "DELETE, GET, HEAD, PATCH"),
        ("GET", "/v1/pull", "POST"),
        ("BREW", "/v1/namespaces/shop/topics/orders/pull", "POST"),
        ("DELETE", "/health/live", "GET, HEAD"),
        ("OPTIONS", "/v1/topics/shop%2Forders/dead", "DELETE, GET, HEAD"),
    ],
)
async def test_an_unknown_method_is_answered_with_405_and_the_allowed_ones(
    client: httpx2.AsyncClient, method: str, path: str, allow: str
) -> None:
    response = await client.request(method, path)
    assert response.headers["allow"] == allow
    problem = _problem(response)
    assert (problem["type"], problem["status"]) == (_TYPE + "no-such-method", 405)
    assert problem["detail"] == f"{path} takes {allow}, not {method}"


async def test_head_is_answered_as_get(client: httpx2.AsyncClient) -> None:
    for path in ("/", "/health/live", "/v1/version", "/openapi.json"):
        head, get = await client.head(path), await client.get(path)
        assert (head.status_code, head.headers["content-type"]) == (get.status_code, get.headers["content-type"])


async def test_a_body_with_a_content_coding_is_refused(client: httpx2.AsyncClient) -> None:
    response = await client.post(
        "/v1/topics/orders/messages", content=gzip.compress(b'{"body":1}'), headers={"Content-Encoding": "gzip"}
    )
    problem = _problem(response)
    assert (problem["type"], problem["status"]) == (_TYPE + "encoded-body", 415)
    assert response.headers["accept-encoding"] == "identity"
    assert problem["errors"][0]["field"] == "Content-Encoding"
    assert problem["errors"][0]["value"] == "gzip"


@pytest.mark.parametrize(
    "document",
    [
        *(b"{", b'{"body": 1', b"\xff", b'{"body": NaN}', b"nonsense", b'{"id": 0, "body": }', b'{"id": "\xff"}'),
        *(b"[" * 100_000, b"[" * 100_000 + b"]" * 100_000, b'{"a":' * 5_000 + b"1" + b"}" * 5_000),
    ],
)
async def test_broken_json_is_answered_with_400(client: httpx2.AsyncClient, document: bytes) -> None:
    problem = _problem(await client.post("/v1/topics/orders/messages", content=document))
    assert (problem["type"], problem["status"]) == (_TYPE + "broken-json", 400)
    assert problem["detail"].startswith("the body is not valid JSON: ")


@pytest.mark.parametrize(
    ("given", "kept"),
    [("abc-1.2:3", True), ("a b", False), ("x" * 129, False), ("", False), (f"a-dbt_{'0' * 12}_{'0' * 64}", False)],
)
async def test_a_valid_request_id_is_kept_and_another_is_replaced(
    client: httpx2.AsyncClient, given: str, kept: bool
) -> None:
    response = await client.get("/health/live", headers={"X-Request-ID": given})
    assert (response.headers["x-request-id"] == given) is kept
    assert response.headers["x-request-id"]


async def test_a_value_is_cut_in_the_answer(client: httpx2.AsyncClient) -> None:
    document = b'{"id":' + b"[ 1.50, " * 400 + b"0" + b"]" * 400 + b',"body":1}'
    response = await client.post("/v1/topics/orders/messages", content=document)
    assert response.status_code == 422
    assert response.json()["errors"][0]["value"] == ("[1.50," * 200)[:200] + "…"
