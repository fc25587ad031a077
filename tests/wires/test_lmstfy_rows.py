"""Tests each row of lmstfy's API and admin port: a literal request over a socket, and its literal answer.

In a request `{t}` is a token of the namespace `shop`. In an answer `<id>` is any job id and `<n>` any number.
"""

from __future__ import annotations

import re

import pytest
import pytest_asyncio

from tests.wires.lmstfy import BASIC, Answer, Lmstfy, ask

JSON = "application/json; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
ULID = r"[0-7][0-9A-HJKMNP-TV-Z]{25}"
LONG = "n" * 256
MIB = 1024 * 1024
NOT_FOUND = '{"error":"api not found"}'


def error(text: str) -> str:
    return f'{{"error":"{text}"}}'


def matches(written: str, answer: str) -> bool:
    pattern = re.escape(written).replace("<id>", f"1?{ULID}").replace("<n>", r"\d+")
    return re.fullmatch(pattern, answer) is not None


def check(answer: Answer, status: int, body: str, content_type: str | None) -> None:
    assert answer.status == status, answer
    assert matches(body, answer.text), answer
    assert answer.headers.get("content-type") == content_type
    assert re.fullmatch(ULID, answer.headers["x-request-id"])


@pytest_asyncio.fixture(scope="session")
async def token(lmstfy: Lmstfy) -> str:
    return await lmstfy.token("shop")


REFUSED = [
    # publish, in the order of the checks
    ("PUT /api/shop/q?delay=", 400, error("invalid delay")),
    ("PUT /api/shop/q?delay=-1", 400, error("invalid delay")),
    ("PUT /api/shop/q?delay=%2B1", 400, error("invalid delay")),
    ("PUT /api/shop/q?delay=1.5", 400, error("invalid delay")),
    ("PUT /api/shop/q?delay=%201", 400, error("invalid delay")),
    ("PUT /api/shop/q?delay=4294967296", 400, error("invalid delay")),
    ("PUT /api/shop/q?delay=x&ttl=x&tries=x", 400, error("invalid delay")),
    ("PUT /api/shop/q?ttl=", 400, error("invalid ttl")),
    ("PUT /api/shop/q?ttl=4294967296&tries=x", 400, error("invalid ttl")),
    ("PUT /api/shop/q?delay=6&ttl=5&tries=x", 400, error("ttl is shorter than delay")),
    ("PUT /api/shop/q?tries=", 400, error("invalid tries")),
    ("PUT /api/shop/q?tries=65536", 400, error("invalid tries")),
    ("PUT /api/shop/q?tries=0", 400, error("tries shouldn't be zero")),
    ("PUT /api/shop/q/bulk?delay=x", 400, error("invalid delay")),
    ("PUT /api/shop/q/bulk?ttl=x", 400, error("invalid ttl")),
    ("PUT /api/shop/q/bulk?delay=6&ttl=5", 400, error("ttl is shorter than delay")),
    ("PUT /api/shop/q/bulk?tries=x", 400, error("invalid tries")),
    ("PUT /api/shop/q/bulk?tries=0", 400, error("tries shouldn't be zero")),
    ("PUT /api/shop/q/bulk", 400, error("request body should be an array of objects")),
    ("PUT /api/shop/q/job/j?tries=0", 400, error("tries shouldn't be zero")),
    # consume
    ("GET /api/shop/q?ttr=x&timeout=x&count=x", 400, error("invalid ttr")),
    ("GET /api/shop/q?timeout=-1&count=x", 400, error("invalid timeout")),
    ("GET /api/shop/q?count=", 400, error("invalid count")),
    ("GET /api/shop/q?count=0", 400, error("invalid count")),
    ("GET /api/shop/q?count=101", 400, error("invalid count")),
    ("GET /api/shop/empty?freeze_tries=abc", 404, '{"msg":"no job available"}'),
    ("GET /api/shop/,", 400, error("invalid queue name(s)")),
    ("GET /api/shop/empty", 404, '{"msg":"no job available"}'),
    ("GET /api/shop/empty?count=5", 404, '{"msg":"no job available"}'),
    ("GET /api/shop/empty,void?timeout=0", 404, '{"msg":"no job available"}'),
    ("GET /api/shop/_empty", 404, '{"msg":"no job available"}'),
    # reading jobs and sizes
    ("GET /api/shop/empty/peek", 404, error("the queue is empty")),
    ("GET /api/shop/empty/job/01ARZ3NDEKTSV4RRFFQ69G5FAV", 404, error("job not found")),
    ("GET /api/shop/empty/size", 200, '{"namespace":"shop","queue":"empty","size":0}'),
    ("GET /api/shop/never/size", 200, '{"namespace":"shop","queue":"never","size":0}'),
    ("GET /api/shop/never/deadletter/size", 200, '{"namespace":"shop","queue":"never","size":0}'),
    (
        "GET /api/shop/never/deadletter",
        200,
        '{"deadletter_head":"","deadletter_size":0,"namespace":"shop","queue":"never"}',
    ),
    # dead letters
    ("PUT /api/shop/empty/deadletter?limit=0", 400, error("invalid limit")),
    ("PUT /api/shop/empty/deadletter?limit=x&ttl=-1", 400, error("invalid limit")),
    ("PUT /api/shop/empty/deadletter?ttl=-1", 400, error("invalid ttl")),
    ("PUT /api/shop/empty/deadletter?limit=%2B1", 200, '{"count":0,"msg":"respawned"}'),
    ("DELETE /api/shop/empty/deadletter?limit=-1", 400, error("invalid limit")),
    # names, which are checked before the token
    (f"PUT /api/{LONG}/q", 400, error("namespace or queue name too long")),
    (f"GET /api/shop/{LONG}/peek", 400, error("namespace or queue name too long")),
    ("PUT /api/sh.op/q", 400, error("namespace name contains forbidden characters")),
    ("PUT /api/shop/a,b", 400, error("queue name contains forbidden characters")),
    ("PUT /api/shop/_q", 400, error("queue name contains forbidden characters")),
    ("GET /api/sh%C3%B6p/q", 400, error("namespace name contains forbidden characters")),
    ("GET /api/shop/q.1,q2", 400, error("queue name contains forbidden characters")),
    ("PUT /api//q", 400, error("namespace name contains forbidden characters")),
    ("GET /api//q", 400, error("namespace name contains forbidden characters")),
    ("GET /api//q/job/j", 400, error("namespace name contains forbidden characters")),
    ("GET /api/shop//peek", 400, error("queue name contains forbidden characters")),
    ("PUT /api/shop//bulk", 400, error("queue name contains forbidden characters")),
    ("GET /api///size", 400, error("namespace name contains forbidden characters")),
    # paths that Gin does not know
    ("GET /api/shop/q/job/", 404, NOT_FOUND),
    ("GET /api/", 404, NOT_FOUND),
    ("GET /api/shop/q/", 404, NOT_FOUND),
    ("PUT /api/shop/q/", 404, NOT_FOUND),
    ("POST /api/shop/q", 404, NOT_FOUND),
    ("HEAD /api/shop/q/size", 404, ""),
    ("GET /api/shop", 404, NOT_FOUND),
    ("GET /api/shop/q/unknown", 404, NOT_FOUND),
    ("GET /", 404, NOT_FOUND),
    ("GET /v1/topics", 404, NOT_FOUND),
    ("GET /version", 404, NOT_FOUND),
]


@pytest.mark.parametrize(("request_line", "status", "body"), REFUSED, ids=lambda value: str(value)[:60])
async def test_each_request_without_jobs_has_its_answer(
    lmstfy: Lmstfy, token: str, request_line: str, status: int, body: str
) -> None:
    check(await ask(lmstfy.port, request_line, {"X-Token": token}), status, body, JSON)


@pytest.mark.parametrize(
    ("body", "status", "answer"),
    [
        (b"{}", 400, error("request body should be an array of objects")),
        (b"[1", 400, error("request body should be an array of objects")),
        (b"[NaN]", 400, error("request body should be an array of objects")),
        (b"[1,]", 400, error("request body should be an array of objects")),
        (b"[] x", 400, error("request body should be an array of objects")),
        (b"[]", 400, error("no jobs")),
        (b"null", 400, error("no jobs")),
        (b"[" + b",".join([b"1"] * 65) + b"]", 400, error("too many jobs")),
        (b'[1,"' + b"x" * MIB + b'"]', 413, error("job too large")),
    ],
    ids=lambda value: str(value)[:40],
)
async def test_an_invalid_bulk_is_refused(lmstfy: Lmstfy, token: str, body: bytes, status: int, answer: str) -> None:
    check(await ask(lmstfy.port, "PUT /api/shop/q/bulk", {"X-Token": token}, body), status, answer, JSON)


async def test_a_body_over_one_mebibyte_is_too_large(lmstfy: Lmstfy, token: str) -> None:
    for size in (MIB + 1, 2 * MIB):
        answer = await ask(lmstfy.port, "PUT /api/shop/q", {"X-Token": token}, b"x" * size)
        check(answer, 413, error("body too large"), JSON)


async def test_a_bulk_over_the_limit_of_batches_is_too_large(lmstfy: Lmstfy, token: str) -> None:
    body = b" " * (17 * MIB + 1)
    check(await ask(lmstfy.port, "PUT /api/shop/q/bulk", {"X-Token": token}, body), 413, error("job too large"), JSON)


async def test_more_than_sixteen_attributes_are_refused(lmstfy: Lmstfy, token: str) -> None:
    attributes = {f"Job-Attr-k{number}": "v" for number in range(17)}
    headers = {"X-Token": token, "Enable-Job-Version": "yes", **attributes}
    for path in ("PUT /api/shop/q", "PUT /api/shop/q/bulk"):
        answer = await ask(lmstfy.port, path, headers, b"[1]")
        check(answer, 400, error("too many attributes, cannot exceed 16"), JSON)


JOB = (
    '"attributes":null,"data":"aGVsbG8=","elapsed_ms":<n>,"job_id":"<id>"{msg},"namespace":"shop","queue":"rows",'
    '"remain_tries":{tries},"ttl":{ttl}'
)


def job(tries: int, ttl: int, *, msg: bool = False) -> str:
    shown = JOB.replace("{msg}", ',"msg":"new job"' if msg else "")
    return "{" + shown.replace("{tries}", str(tries)).replace("{ttl}", str(ttl)) + "}"


async def test_each_step_in_the_life_of_a_job_has_its_answer(lmstfy: Lmstfy, token: str) -> None:
    async def then(request: str, status: int, body: str, given: bytes = b"") -> Answer:
        answer = await ask(lmstfy.port, request, {"X-Token": token}, given)
        check(answer, status, body, None if status == 204 else JSON)
        assert (answer.headers.get("content-length") is None) == (status == 204)
        return answer

    published = '{"job_id":"<id>","msg":"published"}'
    queue = "/api/shop/rows"
    first = (await then(f"PUT {queue}?delay=0&ttl=0&tries=3", 201, published, b"hello")).json["job_id"]
    await then(f"GET {queue}/size", 200, '{"namespace":"shop","queue":"rows","size":1}')
    await then(f"GET {queue}/peek", 200, job(3, 0))
    await then(f"GET {queue}/job/{first}", 200, job(0, 0))
    await then(f"GET {queue}?ttr=60&timeout=30&freeze_tries=true", 200, job(3, 0, msg=True))
    await then(f"GET {queue}/size", 200, '{"namespace":"shop","queue":"rows","size":0}')
    second = (await then(f"PUT {queue}/job/{first}?ttl=0&tries=2", 201, published, b"hello")).json["job_id"]
    await then(f"GET {queue}/job/{first}", 404, error("job not found"))
    await then(f"GET {queue}?ttr=60&timeout=30&freeze_tries=false", 200, job(1, 0, msg=True))
    await then(f"DELETE {queue}/job/{second}", 204, "")
    await then(f"DELETE {queue}/job/{second}", 204, "")
    await then(f"DELETE {queue}/job/never-there", 204, "")
    await then(f"PUT {queue}/bulk?ttl=0", 201, '{"job_ids":["<id>","<id>"],"msg":"published"}', b' [{"a": 1} , "b"]')
    both = await ask(lmstfy.port, f"GET {queue}?count=2&timeout=30", {"X-Token": token})
    assert [job["data"] for job in both.json] == ["eyJhIjogMX0=", "ImIi"]  # {"a": 1} and "b", byte for byte
    await then(f"PUT {queue}?ttl=0", 201, published, b"hello")
    await then(f"GET {queue}?count=2&timeout=30", 200, f"[{job(0, 0, msg=True)}]")
    await then(f"DELETE {queue}", 204, "")
    await then(f"DELETE {queue}/deadletter", 204, "")


@pytest.mark.parametrize(
    ("path", "headers", "status", "body"),
    [
        ("q", {}, 401, error("token not found")),
        ("q", {"X-Token": "wrong"}, 401, error("invalid token")),
        ("q", {"X-Token": "default:"}, 401, error("token not found")),
        ("q", {"X-Token": "nowhere:wrong"}, 404, error("pool not found")),
        ("q?token=wrong", {}, 401, error("invalid token")),
        ("q?token={t}", {"X-Token": "wrong"}, 401, error("invalid token")),
        ("_", {"X-Token": "nowhere:wrong"}, 404, error("pool not found")),
        ("empty?token={t}", {}, 404, '{"msg":"no job available"}'),
        ("empty?token=wrong", {"X-Token": "{t}"}, 404, '{"msg":"no job available"}'),
        ("empty", {"X-Token": "default:{t}"}, 404, '{"msg":"no job available"}'),
        ("empty", {"X-Token": ":{t}"}, 404, '{"msg":"no job available"}'),
        ("empty/size", {}, 200, '{"namespace":"shop","queue":"empty","size":0}'),
        ("empty/deadletter/size", {}, 200, '{"namespace":"shop","queue":"empty","size":0}'),
        ("empty/size", {"X-Token": "nowhere:wrong"}, 404, error("pool not found")),
        ("empty/deadletter", {}, 401, error("token not found")),
        ("empty/peek", {}, 401, error("token not found")),
    ],
)
async def test_each_token_has_its_answer(
    *, lmstfy: Lmstfy, token: str, path: str, headers: dict[str, str], status: int, body: str
) -> None:
    given = {name: value.replace("{t}", token) for name, value in headers.items()}
    check(await ask(lmstfy.port, f"GET /api/shop/{path.replace('{t}', token)}", given), status, body, JSON)


@pytest.mark.parametrize(
    ("request_line", "status", "location", "body"),
    [
        ("GET /api/shop/", 301, "/api/shop", '<a href="/api/shop">Moved Permanently</a>.\n\n'),
        ("GET /api/shop/q/size/", 301, "/api/shop/q/size", '<a href="/api/shop/q/size">Moved Permanently</a>.\n\n'),
        ("PUT /api/shop/", 307, "/api/shop", ""),
        ("PUT /api/shop/q/bulk/?ttl=1&tries=2", 307, "/api/shop/q/bulk?ttl=1&tries=2", ""),
        ("DELETE /api/shop/q/job/j/", 307, "/api/shop/q/job/j", ""),
    ],
)
async def test_a_superfluous_slash_is_redirected(
    *, lmstfy: Lmstfy, token: str, request_line: str, status: int, location: str, body: str
) -> None:
    answer = await ask(lmstfy.port, request_line, {"X-Token": token})
    check(answer, status, body, "text/html; charset=utf-8" if body else None)
    assert answer.headers["location"] == location


async def test_the_bridges_own_port_serves_the_api_and_no_admin_calls(lmstfy: Lmstfy, token: str) -> None:
    mine = await ask(lmstfy.own_port, "GET /api/shop/empty", {"X-Token": token})
    check(mine, 404, '{"msg":"no job available"}', JSON)
    check(await ask(lmstfy.own_port, "GET /api/shop/empty"), 401, error("token not found"), JSON)
    check(await ask(lmstfy.own_port, "GET /api/nothing"), 404, NOT_FOUND, JSON)
    assert (await ask(lmstfy.own_port, "GET /token/shop", BASIC)).headers["content-type"] == "application/problem+json"


INDENTED_TOKEN = '{\n    "token": "<id>"\n}'
NO_POOL = error("the pool was not exists")

ADMIN = [
    ("GET /version", b"", 200, '{\n    "build_commit": "",\n    "build_date": "",\n    "version": "0.1.0"\n}', JSON),
    ("GET /pools", b"", 200, '[\n    "default"\n]', JSON),
    ("GET /info?pool=nowhere", b"", 200, "", None),
    ("GET /token/none", b"", 200, '{\n    "tokens": {}\n}', JSON),
    ("GET /token/none?pool=nowhere", b"", 400, NO_POOL, JSON),
    ("POST /token/none", b"", 400, error("invalid description"), JSON),
    ("POST /token/none?description=", b"", 400, error("invalid description"), JSON),
    ("POST /token/none?description=d&token=short", b"", 400, error("the user token was too short"), JSON),
    (f"POST /token/{LONG}?description=d", b"", 400, error("the namespace name was too long"), JSON),
    ("POST /token/n.s?description=d", b"", 400, error("namespace name contains forbidden characters"), JSON),
    ("POST /token/none?description=d&pool=nowhere", b"", 400, NO_POOL, JSON),
    ("DELETE /token/none/nowhere:never-there", b"", 400, NO_POOL, JSON),
    ("DELETE /token/none/never-there", b"", 204, "", None),
    ("POST /token/made?description=d", b"", 201, INDENTED_TOKEN, JSON),
    ("POST /token/made?description=d&pool=default", b"", 201, '{\n    "token": "default:<id>"\n}', JSON),
    ("GET /token/none/t/limit", b"", 404, "null", JSON),
    ("POST /token/none/t/limit", b"", 400, error("the limiter should be a JSON object"), JSON),
    ("POST /token/none/t/limit", b"{}", 400, '{"limiter":{"read":0,"write":0,"interval":0}}', JSON),
    ("POST /token/none/t/limit", b'{"read":1}', 400, error(r"interval should be \u003e 0"), JSON),
    ("PUT /token/none/t/limit", b'{"interval":1}', 400, '{"limiter":{"read":0,"write":0,"interval":1}}', JSON),
    ("PUT /token/none/t/limit", b'{"read":1}', 400, error(r"interval should be \u003e 0"), JSON),
    ("DELETE /token/none/t/limit", b"", 200, '{"msg":"success"}', JSON),
    ("GET /accesslog", b"", 200, '{"status":"disabled"}', JSON),
    ("POST /accesslog?status=on", b"", 400, error("invalid status"), JSON),
    (
        "GET /debug/pprof/",
        b"",
        404,
        "delaybridge is not a Go program and has no pprof profiles.\n",
        TEXT,
    ),
    ("GET /nothing", b"", 404, "404 page not found", "text/plain"),
    ("GET /api/shop/q", b"", 404, "404 page not found", "text/plain"),
]


@pytest.mark.parametrize(
    ("request_line", "given", "status", "body", "content_type"), ADMIN, ids=lambda value: str(value)[:50]
)
async def test_each_admin_request_has_its_answer(
    *, lmstfy: Lmstfy, request_line: str, given: bytes, status: int, body: str, content_type: str | None
) -> None:
    check(await lmstfy.admin(request_line, given), status, body, content_type)


@pytest.mark.parametrize(
    "request_line",
    [
        "GET /limits",
        "GET /token/shop",
        "POST /token/shop?description=d",
        "DELETE /token/shop/t",
        "GET /token/shop/t/limit",
        "POST /token/shop/t/limit",
        "PUT /token/shop/t/limit",
        "DELETE /token/shop/t/limit",
        "POST /accesslog?status=enable",
    ],
)
async def test_calls_on_tokens_and_limits_need_an_account(lmstfy: Lmstfy, request_line: str) -> None:
    for headers in ({}, {"Authorization": "Basic b3BzOndyb25n"}, {"Authorization": "Bearer s3cret"}):
        answer = await ask(lmstfy.admin_port, request_line, headers)
        check(answer, 401, "", None)
        assert answer.headers["www-authenticate"] == 'Basic realm="Authorization Required"'


@pytest.mark.parametrize("path", ["/info", "/version", "/metrics", "/pools", "/accesslog"])
async def test_other_admin_calls_need_no_account(lmstfy: Lmstfy, path: str) -> None:
    assert (await ask(lmstfy.admin_port, f"GET {path}")).status == 200
