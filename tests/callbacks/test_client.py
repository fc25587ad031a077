"""Tests that the client connects only to addresses it has checked, whatever a name server answers later."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress

import pytest

from bridge.loops.callbacks.client import Client
from bridge.loops.callbacks.decisions import Failure, Reason, Response
from bridge.loops.callbacks.resolver import Resolver, UnknownHost
from bridge.model.addresses import Url, parse_allowed
from tests.callbacks.receiver import Receiver, answer

HERE = parse_allowed("http://127.0.0.1")
HEADERS = [("Host", "hooks.example"), ("Content-Length", "2")]


class NameServer:
    """Gives each answer once, in order, and then repeats the last."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.queries = 0

    def __call__(self, host: str) -> Sequence[str]:
        assert host == "hooks.example"
        self.queries += 1
        return self.answers[min(self.queries, len(self.answers)) - 1]


class Silent:
    """Gives no answer until `release` is set; then an error."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.queries = threading.Semaphore(0)

    def __call__(self, host: str) -> Sequence[str]:
        self.queries.release()
        self.release.wait()
        raise OSError


@pytest.fixture
def silent() -> Iterator[Silent]:
    silent = Silent()
    yield silent
    silent.release.set()


async def posts(server: NameServer, receiver: Receiver, count: int) -> list[Response | Failure]:
    resolver = Resolver(server)
    client = Client(resolver, HERE, ssl.create_default_context(), connections=2)
    url = Url("http", "hooks.example", receiver.port, "/hook")
    try:
        return [await client.post(url, HEADERS, b"{}", timeout_ms=30_000) for _ in range(count)]
    finally:
        await client.close()
        resolver.close()


async def test_each_new_connection_looks_its_host_up_and_checks_the_addresses(receiver: Receiver) -> None:
    receiver.then = [answer(), answer(connection="close")]
    server = NameServer(["127.0.0.1"], ["127.0.0.2"])

    first, second, moved = await posts(server, receiver, 3)

    assert (first, second) == (Response(200), Response(200))
    assert isinstance(moved, Failure)
    assert moved.reason is Reason.ADDRESS
    assert (server.queries, receiver.connections) == (2, 1)
    assert (await receiver.calls.get()).headers["host"] == "hooks.example"


@pytest.mark.parametrize("addresses", [["127.0.0.1", "10.0.0.1"], ["10.0.0.1", "127.0.0.1"], ["::ffff:7f00:2"]])
async def test_one_forbidden_address_prevents_the_connection(receiver: Receiver, addresses: Sequence[str]) -> None:
    (refused,) = await posts(NameServer(addresses), receiver, 1)

    assert isinstance(refused, Failure)
    assert refused.reason is Reason.ADDRESS
    assert receiver.connections == 0


async def test_a_host_without_an_address_fails_as_connection(receiver: Receiver) -> None:
    (failed,) = await posts(NameServer([]), receiver, 1)

    assert isinstance(failed, Failure)
    assert failed.reason is Reason.CONNECTION
    assert "hooks.example has no address" in failed.detail


async def test_a_proxy_in_the_environment_is_not_used(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    assert await posts(NameServer(["127.0.0.1"]), receiver, 1) == [Response(200)]


async def test_cookies_are_not_sent_back(receiver: Receiver) -> None:
    receiver.otherwise = answer(set_cookie="a=b; Path=/")

    await posts(NameServer(["127.0.0.1"]), receiver, 2)

    assert ["cookie" in call.headers for call in await receiver.some(2)] == [False, False]


async def test_look_ups_of_one_host_share_one_thread(silent: Silent) -> None:
    resolver = Resolver(silent)
    for _ in range(3):
        with suppress(TimeoutError):
            async with asyncio.timeout(0.01):
                await resolver.addresses("slow.example")
    last = asyncio.create_task(resolver.addresses("slow.example"))
    assert await asyncio.to_thread(silent.queries.acquire)
    silent.release.set()
    with pytest.raises(UnknownHost):
        await last
    assert not silent.queries.acquire(blocking=False)
    resolver.close()
