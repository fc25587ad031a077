"""Sends what no well-behaved client sends. The bridge refuses it, changes nothing, and serves other clients on."""

from __future__ import annotations

import asyncio
import json
import re
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import httpx2
import pytest

from bridge.local.ports import free_ports
from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.forked_bridge import PATIENT, ForkedBridge
from tests.waiting import pause

MAX_BODY = 1_000
LARGEST_REQUEST = 3 * MAX_BODY + 256 * 1024
MAX_BUFFERED = 1024 * 1024
CONNECTIONS = 50
CLIENT_TIMEOUT_S = 2.0
OTHERS_PAUSE_S = 0.2


@pytest.fixture(scope="module")
def strict(local_dir: Path, rabbit: RabbitNode, redis_node: RedisNode) -> Iterator[ForkedBridge]:
    """A bridge with small limits."""
    settings = {
        "BRIDGE_AMQP_URL": rabbit.amqp_url,
        "BRIDGE_REDIS_URL": redis_node.url,
        "BRIDGE_MAX_BODY": str(MAX_BODY),
        "BRIDGE_MAX_BUFFERED": str(MAX_BUFFERED),
        "BRIDGE_MAX_CONNECTIONS": str(CONNECTIONS),
        "BRIDGE_CLIENT_TIMEOUT": f"{CLIENT_TIMEOUT_S:g}s",
        "BRIDGE_KEEP_ALIVE": "3s",
        **PATIENT,
    }
    with ForkedBridge(local_dir / "strict" / "bridge.log", free_ports(1)[0], settings) as process:
        yield process


class Raw:
    """A TCP connection on which a test writes raw bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def write(self, data: bytes) -> None:
        self.writer.write(data)

    async def all(self) -> bytes:
        """Everything the bridge sends until it closes the connection. Fails if it does not close within 30 s."""
        return await asyncio.wait_for(self.reader.read(), 30)

    async def answer(self) -> tuple[int, bytes, bytes]:
        """The next answer: status, head in lower case, body."""
        head = (await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 30)).lower()
        length = re.search(rb"\r\ncontent-length: (\d+)", head)
        return int(head.split()[1]), head, await self.reader.readexactly(int(length[1]) if length else 0)

    async def refused(self, *statuses: int) -> None:
        """Checks that the next answer is a problem with one of these statuses, and the connection's last."""
        status, head, body = await self.answer()
        assert status in statuses, (status, head, body)
        assert b"\r\nconnection: close\r\n" in head
        assert b"\r\ncontent-type: application/problem+json\r\n" in head
        problem = json.loads(body)
        assert problem["status"] == status
        assert f"\r\nx-request-id: {problem['request_id']}\r\n".encode() in head
        assert await self.all() == b""


@asynccontextmanager
async def connected(bridge: ForkedBridge) -> AsyncIterator[Raw]:
    raw = Raw(*await asyncio.open_connection("127.0.0.1", bridge.port))
    try:
        yield raw
    finally:
        raw.writer.transport.abort()


@asynccontextmanager
async def others_served(bridge: ForkedBridge) -> AsyncIterator[None]:
    """Checks that well-behaved clients are answered meanwhile, with a kept connection and with new ones."""
    ended = asyncio.Event()
    topic = f"t-{uuid4().hex[:12]}"

    async def send(number: int, client: httpx2.AsyncClient, **headers: str) -> None:
        message = {"id": f"m-{number}", "body": 1, "delay": "1h"}
        (await client.post(f"/v1/topics/{topic}/messages", json=message, headers=headers)).raise_for_status()

    async def serve() -> None:
        async with httpx2.AsyncClient(base_url=bridge.url, timeout=30) as client:
            number = 0
            while not ended.is_set() or number < 3:
                await send(number, client)
                await send(number + 1_000_000, client, Connection="close")
                number += 1
                await pause(OTHERS_PAUSE_S)

    async with asyncio.TaskGroup() as group:
        group.create_task(serve())
        try:
            yield
        finally:
            ended.set()


async def is_unknown(bridge: ForkedBridge, topic: str) -> bool:
    async with httpx2.AsyncClient(base_url=bridge.url, timeout=30) as client:
        return (await client.get(f"/v1/topics/{topic}")).status_code == 404


@pytest.fixture
def target() -> str:
    """A topic that must not come into being."""
    return f"t-{uuid4().hex[:12]}"


MESSAGE = b'{"body":1,"delay":"1h"}'
MALFORMED = {
    "content-length and transfer-encoding": b"Content-Length: %(length)d\r\nTransfer-Encoding: chunked\r\n\r\n",
    "transfer-encoding and content-length": b"Transfer-Encoding: chunked\r\nContent-Length: %(length)d\r\n\r\n",
    "two content-lengths": b"Content-Length: %(length)d\r\nContent-Length: 5\r\n\r\n",
    "two equal content-lengths": b"Content-Length: %(length)d\r\nContent-Length: %(length)d\r\n\r\n",
    "a list of content-lengths": b"Content-Length: %(length)d, %(length)d\r\n\r\n",
    "a signed content-length": b"Content-Length: +%(length)d\r\n\r\n",
    "a hexadecimal content-length": b"Content-Length: 0x17\r\n\r\n",
    "a content-length beyond 64 bits": b"Content-Length: 99999999999999999999999\r\n\r\n",
    "an unknown transfer-encoding": b"Transfer-Encoding: xchunked\r\n\r\n17\r\n",
    "chunked not last": b"Transfer-Encoding: chunked, identity\r\n\r\n17\r\n",
    "two transfer-encodings": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n17\r\n",
    "a tab before chunked's end": b"Transfer-Encoding: chunked\x0b\r\n\r\n17\r\n",
    "whitespace before the colon": b"Content-Length : %(length)d\r\n\r\n",
    "whitespace before transfer-encoding's colon": b"Transfer-Encoding : chunked\r\n\r\n17\r\n",
    "a folded line": b"Transfer-Encoding:\r\n chunked\r\n\r\n17\r\n",
    "a folded first line": b" Content-Length: %(length)d\r\n\r\n",
    "a bare line feed": b"X: a\nContent-Length: %(length)d\r\n\r\n",
    "a bare carriage return": b"X: a\rContent-Length: %(length)d\r\n\r\n",
    "a zero byte": b"X: a\0b\r\nContent-Length: %(length)d\r\n\r\n",
    "a line without a colon": b"Content-Length\r\n\r\n",
    "a name with a space": b"Content Length: %(length)d\r\n\r\n",
    "a name of nothing": b": %(length)d\r\n\r\n",
    "a chunk size that is no number": b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "a signed chunk size": b"Transfer-Encoding: chunked\r\n\r\n-17\r\n",
    "a chunk size with 0x": b"Transfer-Encoding: chunked\r\n\r\n0x17\r\n",
    "a chunk size beyond 64 bits": b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
    "a chunk size and a bare line feed": b"Transfer-Encoding: chunked\r\n\r\n17\n",
    "a chunk longer than its size": b"Transfer-Encoding: chunked\r\n\r\n5\r\n",
}


@pytest.mark.parametrize("head", MALFORMED.values(), ids=MALFORMED.keys())
async def test_an_ambiguous_request_and_the_bytes_behind_it_are_refused(
    strict: ForkedBridge, target: str, head: bytes
) -> None:
    await send_malformed(strict, target, head)
    assert await is_unknown(strict, target)


async def send_malformed(bridge: ForkedBridge, target: str, head: bytes) -> None:
    """Sends a head with a message and one more request behind it, and checks that the bridge refuses all of it."""
    start = b"POST /v1/topics/%b/messages HTTP/1.1\r\nHost: localhost\r\n" % target.encode()
    smuggled = start + b"Content-Length: %d\r\n\r\n" % len(MESSAGE) + MESSAGE
    async with connected(bridge) as raw:
        raw.write(start + head % {b"length": len(MESSAGE)} + MESSAGE + b"\r\n0\r\n\r\n" + smuggled)
        await raw.refused(400)


@pytest.mark.parametrize(
    "line",
    [
        b"GET /health/live HTTP/9.9",
        b"FETCH /health/live HTTP/1.1",
        b"GET /health/live\tx HTTP/1.1",
        b"GET /\xff HTTP/1.1",
        b"CONNECT a:1 HTTP/1.1",
        b"PRI * HTTP/2.0\r\n\r\nSM",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
async def test_a_malformed_request_line_is_refused(strict: ForkedBridge, line: bytes) -> None:
    async with connected(strict) as raw:
        raw.write(line + b"\r\nHost: localhost\r\n\r\n")
        await raw.refused(400)


async def test_a_refusal_follows_the_answers_to_earlier_requests(strict: ForkedBridge, target: str) -> None:
    good = b"POST /v1/topics/%b/pull HTTP/1.1\r\nHost: localhost\r\nContent-Length: 13\r\n\r\n" % target.encode()
    async with connected(strict) as raw:
        raw.write(good + b'{"wait":"1s"}' + b"nonsense\r\n\r\n")
        assert (await raw.answer())[0] == 200
        await raw.refused(400)


async def test_a_request_behind_a_refused_body_is_not_executed(strict: ForkedBridge, target: str) -> None:
    start = b"POST /v1/topics/%b/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
    send = start % (target.encode(), len(MESSAGE)) + MESSAGE
    async with connected(strict) as raw:
        raw.write(start % (target.encode(), LARGEST_REQUEST + 1) + send * 100)
        await raw.refused(413)
    assert await is_unknown(strict, target)


async def test_trailer_fields_are_not_headers(strict: ForkedBridge) -> None:
    async with connected(strict) as raw:
        raw.write(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
        raw.write(b"X-Request-ID: smuggled\r\n\r\n")
        status, head, _ = await raw.answer()
        assert status == 200
        assert b"smuggled" not in head


@pytest.mark.parametrize("piece_bytes", [1, 1_000])
@pytest.mark.parametrize("offer", [b"h2c", b"websocket", b"h2c, TLS/1.0"])
async def test_an_offer_of_another_protocol_is_ignored(strict: ForkedBridge, offer: bytes, piece_bytes: int) -> None:
    offering = (
        b"Host: localhost\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: %b\r\nHTTP2-Settings: AAM\r\n" % offer
    )
    nonsense = b'{"nonsense":1}'
    send = b"POST /v1/topics/offered/messages HTTP/1.1\r\n%bContent-Length: 14\r\n\r\n%b" % (offering, nonsense)
    chunked = b"POST /v1/topics/offered/messages HTTP/1.1\r\n%bTransfer-Encoding: chunked\r\n\r\ne\r\n%b\r\n0\r\n\r\n"
    requests = send + chunked % (offering, nonsense) + b"GET /health/live HTTP/1.1\r\n%b\r\n" % offering
    async with connected(strict) as raw:
        for at in range(0, len(requests), piece_bytes):
            raw.write(requests[at : at + piece_bytes])
            await raw.writer.drain()
        for _ in range(2):
            status, _, body = await raw.answer()
            assert (status, b'"nonsense"' in body) == (422, True)
        assert (await raw.answer())[0] == 200


@pytest.mark.parametrize("coding", [b"gzip, chunked", b"gzip\r\nTransfer-Encoding: chunked", b"identity, chunked"])
async def test_a_body_with_another_transfer_coding_is_refused(strict: ForkedBridge, target: str, coding: bytes) -> None:
    async with connected(strict) as raw:
        raw.write(b"POST /v1/topics/%b/messages HTTP/1.1\r\nHost: localhost\r\n" % target.encode())
        raw.write(b"Transfer-Encoding: %b\r\n\r\n17\r\n%b\r\n0\r\n\r\n" % (coding, MESSAGE))
        await raw.refused(501)
    assert await is_unknown(strict, target)


@pytest.mark.parametrize(
    ("target_form", "host", "expected"),
    [
        (b"http://localhost/health/live", b"localhost", 200),
        (b"HTTP://127.0.0.1:80/v1/topics?a=1", b"elsewhere.example", 422),
        (b"http://elsewhere.example/v1/topics", b"localhost", 403),
        (b"http://localhost", b"localhost", 200),
        (b"http://localhost?a=b", b"localhost", 200),
        (b"http:///v1/topics", b"localhost", 400),
        (b"http://a@localhost/v1/topics", b"localhost", 400),
        (b"ftp://localhost/v1/topics", b"localhost", 400),
        (b"*", b"localhost", 400),
    ],
)
async def test_the_host_of_a_target_in_absolute_form_counts(
    strict: ForkedBridge, target_form: bytes, host: bytes, expected: int
) -> None:
    async with connected(strict) as raw:
        raw.write(b"GET %b HTTP/1.1\r\nHost: %b\r\nAccept: application/json\r\n\r\n" % (target_form, host))
        assert (await raw.answer())[0] == expected


async def test_the_head_of_an_answer_to_head_is_that_to_get(strict: ForkedBridge) -> None:
    async with connected(strict) as raw:
        for path in (b"/", b"/health/live", b"/v1/topics", b"/openapi.json", b"/docs"):
            raw.write(b"HEAD %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % path)
            head = (await asyncio.wait_for(raw.reader.readuntil(b"\r\n\r\n"), 30)).lower()
            raw.write(b"GET %b HTTP/1.1\r\nHost: localhost\r\n\r\n" % path)
            status, of_get, _ = await raw.answer()
            assert int(head.split()[1]) == status == 200, path
            assert re.findall(rb"content-length: \d+", head) == re.findall(rb"content-length: \d+", of_get) != []


async def test_expect_100_continue_is_answered(strict: ForkedBridge, target: str) -> None:
    start = b"POST /v1/topics/%b/messages HTTP/1.1\r\nHost: [::1]\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
    async with connected(strict) as raw:
        raw.write(start % (target.encode(), len(MESSAGE)))
        assert (await raw.answer())[0] == 100
        raw.write(MESSAGE)
        assert (await raw.answer())[0] == 201
        raw.write(start % (target.encode(), LARGEST_REQUEST + 1))
        await raw.refused(413)


HEADS = {
    "one header": (431, b"GET /health/live HTTP/1.1\r\nX: " + b"a" * 40_000),
    "headers": (431, b"GET /health/live HTTP/1.1\r\n" + b"X: a\r\n" * 200),
    "large headers": (431, b"GET /health/live HTTP/1.1\r\n" + (b"X: " + b"a" * 1_000 + b"\r\n") * 50),
    "path": (414, b"GET /" + b"a" * 10_000 + b" HTTP/1.1\r\nHost: localhost\r\n"),
    "query": (414, b"GET /health/live?" + b"a" * 10_000 + b" HTTP/1.1\r\nHost: localhost\r\n"),
}


@pytest.mark.parametrize(("status", "head"), HEADS.values(), ids=HEADS.keys())
@pytest.mark.parametrize(
    ("ending", "piece_bytes"), [(b"", 500), (b"\r\n\r\n", 1_000_000)], ids=["endless in pieces", "whole at once"]
)
async def test_a_head_that_is_too_large_is_refused(
    strict: ForkedBridge, status: int, head: bytes, ending: bytes, piece_bytes: int
) -> None:
    await send_too_large(strict, status, head, ending, piece_bytes)


async def send_too_large(bridge: ForkedBridge, status: int, head: bytes, ending: bytes, piece_bytes: int) -> None:
    *_, last, rest = head.split(b"\r\n")
    more = b"a" if rest else last + b"\r\n"
    whole = head + (ending or more * (60_000 // len(more)))
    async with connected(bridge) as raw:
        for at in range(0, len(whole), piece_bytes):
            raw.write(whole[at : at + piece_bytes])
            await raw.writer.drain()
        await raw.refused(status)


async def test_others_are_served_while_requests_are_refused(strict: ForkedBridge, target: str) -> None:
    async with others_served(strict):
        for malformed in MALFORMED.values():
            await send_malformed(strict, target, malformed)
        for status, head in HEADS.values():
            await send_too_large(strict, status, head, b"", 500)


@pytest.mark.parametrize("piece", [b"X: a\r\n", b"X: " + b"a" * 100, b"a" * 1_000], ids=["lines", "line", "value"])
async def test_endless_trailer_fields_are_refused(strict: ForkedBridge, target: str, piece: bytes) -> None:
    async with others_served(strict), connected(strict) as raw:
        raw.write(b"POST /v1/topics/%b/messages HTTP/1.1\r\nHost: localhost\r\n" % target.encode())
        raw.write(b"Transfer-Encoding: chunked\r\n\r\n17\r\n" + MESSAGE + b"\r\n0\r\nX: ")
        await raw.writer.drain()
        for _ in range(200):
            raw.write(piece * (100_000 // len(piece)))
        await raw.refused(400, 431)
    assert await is_unknown(strict, target)


async def test_an_endless_stream_is_refused_once_it_passes_the_limit(strict: ForkedBridge, target: str) -> None:
    async def stream(raw: Raw) -> None:
        raw.write(b"POST /v1/topics/%b/messages HTTP/1.1\r\nHost: localhost\r\n" % target.encode())
        raw.write(b"Transfer-Encoding: chunked\r\n\r\n")
        while True:
            raw.write(b"10000\r\n" + b" " * 65_536 + b"\r\n")
            await raw.writer.drain()
            # The answer is read before the next write, which may fail and then hide the answer.
            await pause()

    async with others_served(strict), connected(strict) as raw:
        streaming = asyncio.create_task(stream(raw))
        try:
            status, head, _ = await raw.answer()
            assert status == 413
            assert b"\r\nconnection: close\r\n" in head
        finally:
            # It goes on for ever, and is cut off.
            with pytest.raises(ConnectionError):
                await asyncio.wait_for(streaming, 30)
    assert await is_unknown(strict, target)


async def test_too_many_pipelined_requests_are_refused(strict: ForkedBridge) -> None:
    async with others_served(strict), connected(strict) as raw:
        raw.write(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1_000)
        answers = await raw.all()
    assert answers.count(b"HTTP/1.1 200 ") >= 100
    assert answers.count(b"HTTP/1.1 400 ") == 1
    assert answers.index(b"HTTP/1.1 400 ") > answers.rindex(b"HTTP/1.1 200 ")


async def test_a_head_that_never_ends_is_refused_in_time(strict: ForkedBridge) -> None:
    async def drip(raw: Raw) -> None:
        raw.write(b"GET /health/live HTTP/1.1\r\n")
        while True:
            raw.write(b"X: a\r\n")
            await asyncio.sleep(0.3)

    async with others_served(strict), connected(strict) as raw:
        dripping = asyncio.create_task(drip(raw))
        await raw.refused(408)
        dripping.cancel()


@pytest.mark.parametrize("framing", [b"Content-Length: 1000", b"Transfer-Encoding: chunked"])
async def test_a_body_that_stalls_is_refused_in_time(strict: ForkedBridge, target: str, framing: bytes) -> None:
    async with others_served(strict), connected(strict) as raw:
        raw.write(b"POST /v1/topics/%b/messages HTTP/1.1\r\nHost: localhost\r\n%b\r\n\r\n" % (target.encode(), framing))
        raw.write(b'5\r\n{"bod' if b"chunked" in framing else b'{"body":')
        await raw.refused(408)
    assert await is_unknown(strict, target)


async def test_a_client_that_never_reads_is_disconnected(strict: ForkedBridge) -> None:
    async with others_served(strict), connected(strict) as raw:
        raw.writer.transport.pause_reading()  # type: ignore[attr-defined]

        async def ask() -> None:
            while True:
                raw.write(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 10)
                await raw.writer.drain()
                await asyncio.sleep(0.01)

        with pytest.raises(ConnectionError):
            await asyncio.wait_for(ask(), 60)


async def never_reading(bridge: ForkedBridge) -> Raw:
    """A client that reads none of its answers, with little room for them in the kernel: the bridge holds the rest."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    client.setblocking(False)
    await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", bridge.port))
    raw = Raw(*await asyncio.open_connection(sock=client))
    raw.writer.transport.pause_reading()  # type: ignore[attr-defined]
    raw.write(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 40)
    return raw


async def test_answers_that_nobody_reads_are_bounded(strict: ForkedBridge) -> None:
    lazy: list[Raw] = []
    refused = False
    try:
        async with httpx2.AsyncClient(base_url=strict.url, timeout=30) as client:
            while not refused:
                # The bridge disconnects them after a while, so there are always new ones.
                lazy.append(await never_reading(strict))
                for raw in lazy[: -CONNECTIONS // 2]:
                    raw.writer.transport.abort()
                asked = map(client.get, ("/v1/topics", "/health/ready", "/health/live"))
                listed, ready, live = await asyncio.gather(*asked)
                assert live.status_code == 200
                refused = all("BRIDGE_MAX_BUFFERED" in answer.text for answer in (listed, ready))
            assert (listed.status_code, listed.headers["retry-after"], ready.status_code) == (503, "1", 503)
            for raw in lazy:
                raw.writer.transport.abort()
            while (await client.get("/v1/topics")).status_code != 200:
                await pause()
    finally:
        for raw in lazy:
            raw.writer.transport.abort()


async def test_a_client_that_reads_late_gets_every_answer(strict: ForkedBridge) -> None:
    async with connected(strict) as raw:
        raw.writer.transport.pause_reading()  # type: ignore[attr-defined]
        raw.write(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 40)
        await asyncio.sleep(0.3)
        raw.writer.transport.resume_reading()  # type: ignore[attr-defined]
        answers = [await raw.answer() for _ in range(40)]
    assert [status for status, *_ in answers] == [200] * 40


async def test_a_long_poll_may_last_longer_than_the_client_timeout(strict: ForkedBridge, target: str) -> None:
    async with connected(strict) as raw:
        raw.write(b"POST /v1/topics/%b/pull HTTP/1.1\r\nHost: [::1]\r\nContent-Length: 13\r\n\r\n" % target.encode())
        raw.write(b'{"wait":"8s"}')
        started_s = asyncio.get_running_loop().time()
        assert (await raw.answer())[0] == 200
        assert asyncio.get_running_loop().time() - started_s >= 7.9


async def test_an_idle_connection_is_closed(strict: ForkedBridge) -> None:
    async with connected(strict) as raw:
        assert await raw.all() == b""
    async with connected(strict) as raw:
        raw.write(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await raw.answer()
        assert await raw.all() == b""


async def test_hundreds_of_idle_connections_keep_no_client_out(strict: ForkedBridge) -> None:
    silent: list[Raw] = []
    async with others_served(strict):
        for number in range(4 * CONNECTIONS):
            raw = Raw(*await asyncio.open_connection("127.0.0.1", strict.port))
            silent.append(raw)
            if number % 2:
                raw.writer.write_eof()
        assert await asyncio.gather(*(raw.all() for raw in silent)) == [b""] * len(silent)
    for raw in silent:
        raw.writer.transport.abort()


async def test_half_a_request_changes_nothing(strict: ForkedBridge, target: str) -> None:
    send = b"POST /v1/topics/%b/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (
        target.encode(),
        len(MESSAGE),
    )
    whole = send + MESSAGE
    async with others_served(strict):
        for length in range(0, len(whole), 7):
            async with connected(strict) as raw:
                raw.write(whole[:length])
                raw.writer.write_eof()
                assert await raw.all() == b""
    assert await is_unknown(strict, target)


async def test_a_connection_over_the_limit_is_answered_with_503(strict: ForkedBridge, target: str) -> None:
    poll = b"POST /v1/topics/%b/pull HTTP/1.1\r\nHost: localhost\r\nContent-Length: 14\r\n\r\n" % target.encode()
    polls = [Raw(*await asyncio.open_connection("127.0.0.1", strict.port)) for _ in range(CONNECTIONS)]
    for raw in polls:
        # A 100 shows that the bridge has started on the request.
        raw.write(poll.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n"))
    for raw in polls:
        assert (await raw.answer())[0] == 100
        raw.write(b'{"wait":"60s"}')
    async with connected(strict) as raw:
        status, head, _ = await raw.answer()
        assert (status, b"\r\nretry-after: 1\r\n" in head) == (503, True)
        assert await raw.all() == b""
    for raw in polls:
        raw.writer.transport.abort()


async def test_a_batch_may_be_larger_than_a_request_with_one_message(strict: ForkedBridge, target: str) -> None:
    message = {"body": "x" * 900, "delay": "1h"}
    batch = {"messages": [message] * 400}
    assert len(json.dumps(batch)) > LARGEST_REQUEST
    async with httpx2.AsyncClient(base_url=strict.url, timeout=30) as client:
        answer = await client.post(f"/v1/topics/{target}/messages/batch", json=batch)
    assert {result["status"] for result in answer.json()["results"]} == {201}


async def test_large_requests_beyond_the_buffer_are_refused_and_small_ones_are_not(
    strict: ForkedBridge, target: str
) -> None:
    head = b"POST /v1/topics/%b/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
    part = b" " * (LARGEST_REQUEST - 1_000)
    unfinished = [Raw(*await asyncio.open_connection("127.0.0.1", strict.port)) for _ in range(8)]
    async with others_served(strict):
        for raw in unfinished:
            raw.write(head % (target.encode(), LARGEST_REQUEST) + part)
        answering = {asyncio.create_task(raw.answer()) for raw in unfinished}
        done, waiting = await asyncio.wait(answering, return_when=asyncio.FIRST_COMPLETED)
        for answered in done:
            status, answer_head, body = answered.result()
            assert (status, json.loads(body)["detail"]) == (
                503,
                f"large requests hold all {MAX_BUFFERED} bytes that BRIDGE_MAX_BUFFERED allows: try again in a second",
            )
            assert b"\r\nretry-after: 1\r\n" in answer_head
        for task in waiting:
            task.cancel()
        for raw in unfinished:
            raw.writer.transport.abort()
    async with connected(strict) as raw:
        raw.write(head % (target.encode(), LARGEST_REQUEST) + part + b" " * (1_000 - len(MESSAGE)) + MESSAGE)
        assert (await raw.answer())[0] == 201


async def test_others_are_served_while_a_large_body_is_parsed(strict: ForkedBridge, target: str) -> None:
    # msgspec makes an object of each number before it counts them.
    body = b'{"messages":[123456789012345678901%b]}' % (b",1" * 480_000)
    head = b"POST /v1/topics/%b/messages/batch HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
    served = [0]
    # If the event loop parsed the body, it would serve three at most. A busy machine may need several tries.
    while max(served) < 5:
        assert len(served) <= 40
        async with connected(strict) as raw, connected(strict) as other:
            raw.write(head % (target.encode(), len(body)) + body)
            answering = asyncio.create_task(raw.answer())
            served.append(0)
            while not answering.done():
                other.write(b"GET /health/live HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert (await other.answer())[0] == 200
                served[-1] += 1
            assert (await answering)[0] == 422


async def test_memory_does_not_grow_under_refused_requests(strict: ForkedBridge) -> None:
    def resident_kib() -> int:
        status = Path(f"/proc/{strict.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status)[1])  # type: ignore[index]

    async def attack() -> None:
        async with connected(strict) as raw:
            raw.write(b"GET /health/live HTTP/1.1\r\nX: " + b"a" * 1_000_000)
            await raw.refused(431)

    for _ in range(20):
        await attack()
    before_kib = resident_kib()
    for _ in range(100):
        await attack()
    assert resident_kib() - before_kib < 20_000
