"""Tests that a request keeps its body although it offers another protocol, with the JDK's own client."""

from __future__ import annotations

import asyncio
import base64
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from bridge.http.app import OPERATIONS
from bridge.model.durations import parse_instant_ms
from tests.integration.topic import Topic

_CLIENT: Final = Path(__file__).with_name("OfferingClient.java")
_OPTIONS: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")  # its life is short, and its source is compiled first
_JSON: Final = "application/json"
_FORM: Final = "application/x-www-form-urlencoded"
_PLACES: Final = {
    "topic": "offered",
    "id": "m-1",
    "schedule": "nightly",
    "operation_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    method: str
    path: str
    body: bytes
    content_type: str = _JSON
    framing: str = "length"

    @property
    def name(self) -> str:
        return f"{self.method} {self.path} {self.framing}"


def of_operations() -> list[Asked]:
    """A request for each operation that takes a body, with a member that none of them knows."""
    return [
        Asked(method=operation.method, path=operation.path.format_map(_PLACES), body=b'{"nonsense":1}')
        for operation in OPERATIONS
        if operation.takes is not None
    ]


OF_WIRES: Final = [
    Asked(method="POST", path="/", body=b"nonsense"),
    Asked(method="POST", path="/push", body=b"{}"),
    Asked(method="POST", path="/pop", body=b"{}"),
    Asked(method="POST", path="/finish", body=b"{}"),
    Asked(method="POST", path="/delete", body=b"{}"),
    Asked(method="POST", path="/get", body=b"{}"),
    Asked(method="POST", path="/topic/offered/job", body=b'{"id":5}'),
    Asked(method="POST", path="/delay/task/add", body=b'{"topic":5}'),
    Asked(method="POST", path="/delay/task/pull", body=b'{"topic":5}'),
    *(
        Asked(
            method="POST",
            path=f"/camellia/delayQueue/{call}",
            body=b"topic=offered&msgId=&msg=m&delayMillis=-1&longPollingTimeoutMillis=1&ackTimeoutMillis=-1&batch=1",
            content_type=_FORM,
        )
        for call in ("sendMsg", "pullMsg", "longPollingMsg", "ackMsg", "deleteMsg", "getMsg")
    ),
]


async def offered(base_url: str, requests: Sequence[Asked]) -> list[tuple[int, Any]]:
    """The answers that the JDK's client gets."""
    java = shutil.which("java")
    if java is None:
        pytest.skip("no java: `make test-clients` installs it")
    lines = [
        "\t".join((one.method, base_url + one.path, one.content_type, one.framing, base64.b64encode(one.body).decode()))
        for one in requests
    ]
    client = await asyncio.create_subprocess_exec(
        java, *_OPTIONS, str(_CLIENT), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    out, _ = await client.communicate("".join(f"{line}\n" for line in lines).encode())
    answers = [line.split("\t") for line in out.decode().splitlines()]
    assert len(answers) == len(requests)
    return [(int(status), _plain(base64.b64decode(body))) for status, body in answers]


async def asked(client: httpx2.AsyncClient, one: Asked, body: bytes) -> tuple[int, Any]:
    answer = await client.request(one.method, one.path, content=body, headers={"Content-Type": one.content_type})
    return answer.status_code, _plain(answer.content)


def _plain(body: bytes) -> Any:
    """The answer without what differs each time."""
    answer = json.loads(body)
    for name in ("request_id", "timestamp"):
        answer.pop(name, None)
    return answer


async def test_every_operation_reads_the_body_of_a_request_that_offers_another_protocol(
    client: httpx2.AsyncClient,
) -> None:
    requests = [*of_operations(), *OF_WIRES]
    plain = [await asked(client, one, one.body) for one in requests]
    for one, answer in zip(requests, plain, strict=True):
        assert await asked(client, one, b"") != answer, f"{one.path}: this request does not tell whether it was read"
    both = [*requests, *(replace(one, framing="chunked") for one in requests)]
    answers = await offered(str(client.base_url).rstrip("/"), both)
    names = [one.name for one in both]
    assert dict(zip(names, answers, strict=True)) == dict(zip(names, plain * 2, strict=True))


async def test_requests_that_offer_another_protocol_do_what_they_ask(client: httpx2.AsyncClient, topic: Topic) -> None:
    path = f"/v1/topics/{topic.name}"
    await topic.put_policy(max_retry=7)
    await topic.send("abc", id="m-1")
    (first,) = await topic.pull(wait="60s", lease="1h")
    await topic.call("POST", "/messages/m-1/nack", {"receipt": first["receipt"], "delay": 0})
    (second,) = await topic.pull(wait="60s", lease="1h")
    (put, ack, nack, send) = await offered(
        str(client.base_url).rstrip("/"),
        [
            Asked(method="PUT", path=path, body=b'{"max_retry":9}'),
            Asked(method="POST", path=f"{path}/messages/m-1/ack", body=_json(receipt=first["receipt"])),
            Asked(method="POST", path=f"{path}/messages/m-1/nack", body=_json(receipt=second["receipt"], delay="1h")),
            Asked(method="POST", path=f"{path}/messages", body=_json(id="m-2", body="x" * 200_000, delay="1h")),
        ],
    )
    assert [status for status, _ in (put, ack, nack, send)] == [200, 409, 200, 201]
    assert (await topic.call("GET"))["policy"]["max_retry"] == 9
    assert (await topic.look("m-1"))["state"] == "waiting"
    assert parse_instant_ms(nack[1]["due_at"]) - parse_instant_ms(send[1]["due_at"]) < 60_000


def _json(**members: Any) -> bytes:
    return json.dumps(members).encode()
