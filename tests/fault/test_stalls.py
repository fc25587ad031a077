"""Tests a bridge that stands still, frozen or busy, while clients give up and send the same through another bridge."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, suppress

import httpx2
import pytest

from tests.fault.api import Api
from tests.fault.stage import Stage, killed, started
from tests.forked_bridge import BUSY_S, ForkedBridge
from tests.proxy import Proxy
from tests.waiting import pause

_PATH = "/v1/topics/stalled/messages"
_OPEN_CHANNEL = struct.pack(">HH", 20, 10)  # class and method


class Raw:
    """A connection on which requests are written whole or in parts."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def to(cls, bridge: ForkedBridge, opened: ExitStack) -> Raw:
        raw = cls(*await asyncio.open_connection("127.0.0.1", bridge.port))
        opened.callback(raw._close)
        return raw

    def write(self, *parts: bytes) -> None:
        self._writer.write(b"".join(parts))

    async def head(self) -> bytes:
        return (await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), 30)).lower()

    async def answer(self) -> tuple[int, bytes]:
        """The status of the next answer, and its body. One of 503 has a Retry-After."""
        head = await self.head()
        length, status = re.search(rb"content-length: (\d+)", head), int(head.split()[1])
        assert (b"\r\nretry-after: 1\r\n" in head) is (status == 503)
        return status, await self._reader.readexactly(int(length[1]) if length else 0)

    def _close(self) -> None:
        self._writer.transport.abort()


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    """Cuts the connections that a test has opened."""
    with ExitStack() as stack:
        yield stack


def request(method: str, path: str, body: bytes = b"", *headers: bytes) -> bytes:
    length = b"Content-Length: %d" % len(body)
    return b"\r\n".join([f"{method} {path} HTTP/1.1".encode(), b"Host: localhost", length, *headers, b"", b""]) + body


def message(message_id: str) -> bytes:
    return json.dumps({"id": message_id, "body": message_id, "delay": "1h"}).encode()


def send(message_id: str) -> bytes:
    return request("POST", _PATH, message(message_id))


@asynccontextmanager
async def stalled(bridge: ForkedBridge, opened: ExitStack, *, busy: bool) -> AsyncIterator[None]:
    """Lets the bridge stand still for `BUSY_S`, and meanwhile runs the context."""
    probe = await Raw.to(bridge, opened)
    os.kill(bridge.pid, signal.SIGUSR1 if busy else signal.SIGSTOP)
    try:
        with suppress(TimeoutError):
            while True:  # until it has noticed the signal
                probe.write(request("GET", "/health/live"))
                async with asyncio.timeout(0.2):
                    await probe.answer()
        yield
        await asyncio.sleep(BUSY_S)
    finally:
        os.kill(bridge.pid, signal.SIGCONT)


@pytest.mark.parametrize("busy", [False, True], ids=["frozen", "busy"])
async def test_requests_that_lay_unread_while_the_bridge_stood_still_change_nothing(
    stage: Stage, http: httpx2.AsyncClient, opened: ExitStack, *, busy: bool
) -> None:
    bridge = stage.bridge()
    await started(bridge)
    api = Api(http, bridge.url)
    await api.sent("stalled", f"deleted-{busy}", delay="1h")
    await api.sent("polled", "first")
    await api.drain("polled", 1)
    names = [f"{name}-{busy}" for name in ("kept", "uploaded", "behind", "new", "piped", "piped-too")]
    kept, uploaded, behind, deleting = [await Raw.to(bridge, opened) for _ in range(4)]
    for connection in (kept, deleting):
        connection.write(request("GET", "/health/live"))
        assert (await connection.answer())[0] == 200
    body = message(names[1])
    uploaded.write(request("POST", _PATH, body, b"Expect: 100-continue").removesuffix(body))
    assert b" 100 " in await uploaded.head()
    behind.write(request("POST", "/v1/topics/polled/pull", b'{"wait":"60s"}'), send(names[2]))
    while "delaybridge_http_waiting_pulls 1.0" not in (await api.call("GET", "/metrics")).text:
        await pause()
    async with stalled(bridge, opened, busy=busy):
        kept.write(send(names[0]))
        uploaded.write(body)
        deleting.write(request("DELETE", f"{_PATH}/deleted-{busy}"))
        new, piped, prober = [await Raw.to(bridge, opened) for _ in range(3)]
        new.write(send(names[3]))
        piped.write(send(names[4]), send(names[5]))
        prober.write(request("GET", "/health/live"))
    for connection in (kept, uploaded, deleting, new, piped):
        status, problem = await connection.answer()
        assert (status, b"stood still for more than 1.9 s" in problem) == (503, True)
    assert (await prober.answer())[0] == 200
    await api.sent("polled", "second")
    status, problem = await behind.answer()
    assert status == 200, problem
    assert (await behind.answer())[0] == 503
    for name in names:
        assert (await api.call("GET", f"{_PATH}/{name}")).status_code == 404
        assert (await api.send("stalled", name, delay="1h")).status_code == 201
    assert (await api.look("stalled", f"deleted-{busy}"))["state"] == "waiting"
    lines = [line for line in bridge.log_file.read_text().splitlines() if "http.stood_still" in line]
    assert [BUSY_S <= json.loads(line)["stood_s"] < 3 * BUSY_S for line in lines] == [True]
    refused = re.search(
        r'delaybridge_http_refused_total\{status="503"\} (\d+)', (await api.call("GET", "/metrics")).text
    )
    assert refused is not None
    assert int(refused[1]) == len(names)  # of the two in one pipeline the second got no answer; and the delete
    await killed(bridge)


@pytest.mark.parametrize("busy", [False, True], ids=["frozen", "busy"])
async def test_pull_goes_on_whose_answer_of_rabbitmq_came_while_the_bridge_stood_still(
    stage: Stage, http: httpx2.AsyncClient, opened: ExitStack, *, busy: bool
) -> None:
    topic = f"answered-{busy}"
    async with Proxy(stage.rabbit.amqp_url, overhears=True) as proxy:
        bridge = stage.bridge(amqp_url=proxy.url)
        await started(bridge)
        api = Api(http, bridge.url)
        await api.sent(topic, "first")
        await api.drain(topic, 1)
        proxy.fall_silent(requests=False)
        proxy.overheard.clear()
        pulling = await Raw.to(bridge, opened)
        pulling.write(request("POST", f"/v1/topics/{topic}/pull", b'{"wait":"60s"}'))
        while _OPEN_CHANNEL not in proxy.overheard:  # the pull's first call
            await pause()
        async with stalled(bridge, opened, busy=busy):
            proxy.speak()
        await api.sent(topic, "second")
        status, pulled = await pulling.answer()
        assert (status, [one["id"] for one in json.loads(pulled)["messages"]]) == (200, ["second"]), pulled
        await killed(bridge)
