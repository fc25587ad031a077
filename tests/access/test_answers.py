"""Tests how refusals are answered and that no answer or log has a secret."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import jsonschema
import pytest

from bridge.access.token import new_id, new_secret, written
from tests.access.conftest import Mint, bearer, id_of
from tests.access.table import NEEDS, NOTHING
from tests.forked_bridge import ForkedBridge

MESSAGES = "/v1/topics/orders/messages"
_TYPE = "urn:problem-type:delaybridge:"
REALM = 'Bearer realm="delaybridge"'
INVALID = f'{REALM}, error="invalid_token"'


def check(answer: httpx2.Response, status: int, slug: str, challenge: str | None) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers.get("www-authenticate") == challenge
    problem: dict[str, Any] = answer.json()
    assert (problem["status"], problem["type"]) == (status, _TYPE + slug)
    assert problem["request_id"] == answer.headers["x-request-id"]
    return problem


async def test_call_without_a_token_gets_a_challenge_without_an_error(client: httpx2.AsyncClient) -> None:
    problem = check(await client.post(MESSAGES, json={"body": 1}), 401, "no-token", REALM)
    assert problem["detail"] == "this request needs a token: send it in one header, Authorization: Bearer dbt_..."
    check(await client.get(MESSAGES, headers={"Authorization": "Basic dTpw"}), 401, "no-token", REALM)


@pytest.mark.parametrize("value", ["Bearer", "Bearer abc", "Bearer dbt_0f4c19a2b7de_", "Bearer dbt__"])
async def test_malformed_token_is_refused_as_malformed(client: httpx2.AsyncClient, value: str) -> None:
    problem = check(await client.get(MESSAGES, headers={"Authorization": value}), 401, "invalid-token", INVALID)
    assert problem["detail"].startswith("the token is malformed")


async def test_invalid_token_is_refused_without_the_reason(client: httpx2.AsyncClient, mint: Mint) -> None:
    good = await mint.make("look")
    expired = await mint.make("look", expires_ms=1)
    revoked = await mint.make("look")
    assert await mint.stored.remove(id_of(revoked))
    wrong = [bearer(written(new_id(), new_secret())), bearer(written(id_of(good), new_secret())), expired, revoked]
    details = [check(await client.get(MESSAGES, headers=one), 401, "invalid-token", INVALID)["detail"] for one in wrong]
    assert details == ["the token is unknown, expired or revoked: ask the operator for a new one"] * 4
    assert (await client.get("/v1/topics", headers=good)).status_code == 200


async def test_two_authorization_headers_are_refused(client: httpx2.AsyncClient, mint: Mint) -> None:
    good = await mint.make("look")
    twice = [("Authorization", good["Authorization"])] * 2
    problem = check(await client.get(MESSAGES, headers=twice), 401, "invalid-token", INVALID)
    assert problem["detail"].startswith("the request has 2 Authorization headers")


async def test_scheme_of_the_header_is_case_insensitive(client: httpx2.AsyncClient, mint: Mint) -> None:
    good = await mint.make("look")
    lower = {"Authorization": good["Authorization"].replace("Bearer", "bearer")}
    assert (await client.get("/v1/topics", headers=lower)).status_code == 200


async def test_refusal_is_sent_before_the_body_is_read(guarded: list[ForkedBridge]) -> None:
    # The request announces a body and sends none of it.
    reader, writer = await asyncio.open_connection("127.0.0.1", guarded[0].port)
    writer.write(b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n" % MESSAGES.encode())
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 401 ")
    # The connection can be used again once the body has been sent.
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    await reader.readexactly(length)
    writer.write(b" " * 1000 + b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
    writer.close()


async def test_body_limit_is_the_smaller_of_token_and_bridge(client: httpx2.AsyncClient, mint: Mint) -> None:
    small, large = await mint.make("send", max_body=10), await mint.make("send", max_body=5_000)
    for headers, limit in ((small, 10), (large, 1_000)):
        body = "x" * (limit - 2)  # and two quotes
        assert (await client.post(MESSAGES, json={"body": body, "delay": "1h"}, headers=headers)).status_code == 201
        answer = await client.post(MESSAGES, json={"body": body + "x", "delay": "1h"}, headers=headers)
        assert answer.status_code == 413
        assert answer.json()["errors"][0]["limit"] == limit
        batch = await client.post(f"{MESSAGES}/batch", json={"messages": [{"body": body + "x"}]}, headers=headers)
        assert [one["status"] for one in batch.json()["results"]] == [413]
    form = {"topic": "orders", "msg": "x" * 11, "delayMillis": "3600000"}
    answer = await client.post("/camellia/delayQueue/sendMsg", data=form, headers=small)
    assert answer.json()["code"] == 400


async def test_call_over_the_rate_limit_is_answered_with_retry_after(client: httpx2.AsyncClient, mint: Mint) -> None:
    header = await mint.make("send", "consume", sends_per_s=1)
    answers = [await client.post(MESSAGES, json={"body": 1, "delay": "1h"}, headers=header)]
    while answers[-1].status_code == 201:
        many = await asyncio.gather(*(client.post(MESSAGES, json={"body": 1}, headers=header) for _ in range(10)))
        answers = sorted(many, key=lambda answer: answer.status_code)
    problem = check(answers[-1], 429, "too-many-requests", None)
    assert problem["detail"] == "this token may make 1 requests a second with the scope send: retry after a pause"
    assert answers[-1].headers["retry-after"] == str(problem["retry_after_s"]) == "1"
    # Only sends are counted.
    assert (await client.post(f"{MESSAGES}/o-9/ack", headers=header)).status_code == 404
    form = {"topic": "orders", "msg": "x", "delayMillis": "3600000"}
    many = await asyncio.gather(
        *(client.post("/camellia/delayQueue/sendMsg", data=form, headers=header) for _ in range(10))
    )
    refused = [answer for answer in many if answer.status_code == 429]
    assert refused
    assert (refused[0].json()["code"], refused[0].headers["retry-after"]) == (429, "1")


async def test_camellia_refusal_has_the_members_of_its_wire(client: httpx2.AsyncClient) -> None:
    answer = await client.post("/camellia/delayQueue/pullMsg", data={"topic": "orders"})
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, REALM)
    detail = "this request needs a token: send it in one header, Authorization: Bearer dbt_..."
    assert answer.json() == {"code": 401, "msg": detail, "delayMsgList": None}


async def test_openapi_document_says_which_scope_a_call_needs(client: httpx2.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    for methods in document["paths"].values():
        for operation in methods.values():
            need = NEEDS[operation["operationId"].removesuffix("_in_namespace")]
            refusals = operation["responses"].keys() & {"401", "403", "429"}
            if need == NOTHING:
                assert "security" not in operation
                assert not refusals
                continue
            assert operation["security"] == [{"token": [need]}]
            assert (f"scope `{need}`" if need != "look" else "any scope") in operation["description"]
            rated = {"429"} if operation["operationId"].startswith(("send", "pull")) else set()
            assert refusals == {"401", "403"} | rated
            for status in refusals:
                (media,) = operation["responses"][status]["content"].values()
                schema = {**media["schema"], "components": document["components"]}
                jsonschema.Draft202012Validator(schema).validate(media["examples"]["problem"]["value"])


async def test_secret_is_in_no_answer_and_no_log(
    client: httpx2.AsyncClient, guarded: list[ForkedBridge], mint: Mint
) -> None:
    good = await mint.make("look", "send", namespaces=["shop"])
    value = good["Authorization"].removeprefix("Bearer ")
    guess = written(id_of(good), new_secret())
    answers = [
        await client.get(f"{MESSAGES}/{value}", headers=good),
        await client.get(f"/v1/namespaces/shop/topics/a/messages?token={value}", headers=good),
        await client.get(f"/v1/namespaces/shop/topics/a/messages/{value}", headers=good),
        await client.get(f"/v1/namespaces/shop/topics/{value}%20/messages", headers=good),
        await client.get(f"/nothing/{value}", headers=good),
        await client.post("/v1/topics/shop%2Fa/messages", json={"body": 1, value: 1, "id": f"{value}/"}, headers=good),
        await client.post("/v1/topics/shop%2Fa/messages", content=value, headers=good),
        await client.get(MESSAGES, headers=bearer(guess)),
        await client.get(MESSAGES, headers=bearer(guess + "x")),
        await client.get(MESSAGES, headers={"Authorization": value}),
    ]
    assert {answer.status_code for answer in answers} == {400, 401, 403, 404, 422}
    logs = "".join(process.log_file.read_text() for process in guarded)
    assert '"event": "access.refused"' in logs
    assert id_of(good) in logs
    for token in (*mint.made, guess):
        secret = token.split("_")[2]
        assert secret not in logs
        assert all(secret not in answer.text for answer in answers)


async def test_refusals_are_counted_by_kind(client: httpx2.AsyncClient, mint: Mint) -> None:
    header = await mint.make("look")

    async def counts() -> dict[str, float]:
        text = (await client.get("/metrics", headers=header)).text
        found = [line.split() for line in text.splitlines() if line.startswith("delaybridge_access_refused_total{")]
        return {name.split('"')[1]: float(count) for name, count in found}

    before = await counts()
    await client.get(MESSAGES)
    await client.get(MESSAGES, headers=bearer("x"))
    await client.post(MESSAGES, headers=header)
    after = await counts()
    kinds = ("no_token", "invalid_token", "insufficient_scope")
    assert [after[kind] - before.get(kind, 0) for kind in kinds] == [1, 1, 1]
