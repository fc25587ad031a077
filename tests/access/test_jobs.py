"""Tests tokens on the job wires: the scope each call needs, and refusals in the form of the wire."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx2
import pytest

from tests.access.conftest import Mint

NO_TOKEN = "this request needs a token: send it in one header, Authorization: Bearer dbt_..."
REALM = 'Bearer realm="delaybridge"'

Headers = dict[str, str]


def calls(topic: str, job_id: str) -> dict[str, tuple[str, str, Any, str]]:
    """Verb, path, JSON body and needed scope of each call, by its name."""
    job = {"topic": topic, "id": job_id, "delay": 600, "ttr": 60}
    jobs = f"/topic/{topic}/job"
    return {
        "push": ("POST", "/push", job, "send"),
        "delete": ("POST", "/delete", {"id": job_id}, "send"),
        "get": ("POST", "/get", {"id": job_id}, "look"),
        "finish": ("POST", "/finish", {"id": job_id}, "consume"),
        "add": ("POST", jobs, job, "send"),
        "pop a topic": ("GET", jobs, None, "consume"),
        "finish of a topic": ("PUT", f"{jobs}/{job_id}", None, "consume"),
        "delete of a topic": ("DELETE", f"{jobs}/{job_id}", None, "send"),
        "command add": ("POST", "/youzan", {"command": "add", **job}, "send"),
        "command pop": ("POST", "/youzan", {"command": "pop", "topic": topic}, "consume"),
        "command finish": ("POST", "/youzan", {"command": "finish", "id": job_id}, "consume"),
        "command delete": ("POST", "/", {"command": "delete", "id": job_id}, "send"),
        "command state": ("POST", "/", {"command": "state", "id": job_id}, "look"),
    }


def refusal(path: str, status: int, reason: str) -> dict[str, Any]:
    if path.startswith("/topic"):
        return {"message": reason, "success": False}
    if path in ("/", "/youzan"):
        return {"success": False, "error": reason, "id": None, "value": None}
    return {"code": status, "message": reason, "data": None}


async def ask(client: httpx2.AsyncClient, call: tuple[str, str, Any, str], headers: Headers) -> httpx2.Response:
    verb, path, document, _ = call
    return await client.request(verb, path, json=document, headers=headers)


@pytest.mark.parametrize("name", calls("t", "i"))
async def test_call_without_a_token_is_refused_in_the_form_of_its_wire(client: httpx2.AsyncClient, name: str) -> None:
    call = calls("jobs", "1")[name]
    answer = await ask(client, call, {})
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, REALM)
    assert answer.json() == refusal(call[1], 401, NO_TOKEN)


async def test_ouqiang_pop_needs_a_token(client: httpx2.AsyncClient, mint: Mint) -> None:
    assert (await client.post("/pop", json={"topic": "jobs"})).json() == refusal("/pop", 401, NO_TOKEN)
    answer = await client.post("/pop", json={"topic": "jobs"}, headers=await mint.make("send"))
    assert (answer.status_code, answer.json()["code"]) == (403, 403)


@pytest.mark.parametrize("name", calls("t", "i"))
async def test_job_call_needs_its_scope(client: httpx2.AsyncClient, mint: Mint, name: str) -> None:
    call = calls(f"jobs-{uuid4().hex[:12]}", uuid4().hex)[name]
    scope = call[3]
    other = {"send": "consume", "consume": "send", "look": None}[scope]
    if other is not None:
        refused = await ask(client, call, await mint.make(other))
        reason = f"this request needs a token with the scope {scope}; this token has {other}"
        assert (refused.status_code, refused.json()) == (403, refusal(call[1], 403, reason))
    allowed = await ask(client, call, await mint.make(scope if scope != "look" else "consume"))
    assert allowed.status_code == 200


async def test_token_reaches_only_jobs_of_its_topics(client: httpx2.AsyncClient, mint: Mint) -> None:
    own, job_id = f"ns-{uuid4().hex[:12]}", uuid4().hex
    everywhere = await mint.make("send", "consume")
    there = await mint.make("send", "consume", namespaces=[own])
    theirs, topic = calls(f"other-{own}", job_id), calls(f"{own}/jobs", job_id)
    for call in (theirs["push"], theirs["command add"]):
        answer = await ask(client, call, there)
        assert answer.json() == refusal(call[1], 403, "this token may not use this topic")
    assert (await ask(client, theirs["push"], everywhere)).json()["code"] == 0
    for name in ("finish", "delete", "get", "command finish", "command delete"):
        assert (await ask(client, theirs[name], there)).status_code == 200  # as if there were no such job
    assert (await ask(client, theirs["command state"], there)).json()["success"] is False
    assert (await ask(client, topic["push"], there)).json()["code"] == 0  # does not touch the other topic's job
    found = (await client.get(f"/v1/topics/other-{own}/messages/{job_id}", headers=everywhere)).json()
    assert found["state"] == "waiting"
    assert (await ask(client, topic["get"], there)).json()["data"]["topic"] == f"{own}/jobs"


async def test_body_limit_of_the_token_holds_on_job_wires(client: httpx2.AsyncClient, mint: Mint) -> None:
    small = await mint.make("send", max_body=10)
    for path, job in (
        ("/push", {"topic": "jobs", "id": "1", "delay": 600, "ttr": 1, "body": "x" * 11}),
        ("/topic/jobs/job", {"id": "1", "body": "x" * 11}),
        ("/youzan", {"command": "add", "topic": "jobs", "id": "1", "body": "x" * 11}),
    ):
        answer = (await client.post(path, json=job, headers=small)).json()
        assert "body: must have at most 10 bytes" in (answer.get("message"), answer.get("error"))
