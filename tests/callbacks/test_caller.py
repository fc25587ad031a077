"""One call, over connections that go to checked addresses only, whatever a name server says next."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator, Sequence
from contextlib import suppress

import pytest

from bridge.loops.callbacks.caller import Caller
from bridge.loops.callbacks.decisions import Answer, Failure, Reason
from bridge.loops.callbacks.dns import Names, NameUnknown
from bridge.model.addresses import Url, parse_allowed
from tests.callbacks.receiver import Receiver, answer

HERE = parse_allowed("http://127.0.0.1")
HEADERS = [("Host", "hooks.example"), ("Content-Length", "2")]


class NameServer:
    """Says one thing after the other, the last for ever."""

    def __init__(self, *said: Sequence[str]) -> None:
        self.said = list(said)
        self.asked = 0

    def __call__(self, host: str) -> Sequence[str]:
        assert host == "hooks.example"
        self.asked += 1
        return self.said[min(self.asked, len(self.said)) - 1]


class Silent:
    """Never answers, until it is let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.asked = threading.Semaphore(0)

    def __call__(self, host: str) -> Sequence[str]:
        self.asked.release()
        self.let_go.wait()
        raise OSError


@pytest.fixture
def silent() -> Iterator[Silent]:
    silent = Silent()
    yield silent
    silent.let_go.set()


async def posts(server: NameServer, receiver: Receiver, count: int) -> list[Answer | Failure]:
    names = Names(server)
    caller = Caller(names, HERE, ssl.create_default_context(), connections=2)
    url = Url("http", "hooks.example", receiver.port, "/hook")
    try:
        return [await caller.post(url, HEADERS, b"{}", timeout_ms=30_000) for _ in range(count)]
    finally:
        await caller.close()
        names.close()


async def test_a_name_is_looked_up_and_checked_again_for_each_new_connection(receiver: Receiver) -> None:
    receiver.then = [answer(), answer(connection="close")]
    server = NameServer(["127.0.0.1"], ["127.0.0.2"])

    first, kept, moved = await posts(server, receiver, 3)

    assert (first, kept) == (Answer(200), Answer(200))
    assert isinstance(moved, Failure)
    assert moved.reason is Reason.ADDRESS
    assert (server.asked, receiver.connections) == (2, 1)
    assert (await receiver.calls.get()).headers["host"] == "hooks.example"


@pytest.mark.parametrize("addresses", [["127.0.0.1", "10.0.0.1"], ["10.0.0.1", "127.0.0.1"], ["::ffff:7f00:2"]])
async def test_one_forbidden_address_is_enough_and_nobody_is_connected_to(
    receiver: Receiver, addresses: Sequence[str]
) -> None:
    (refused,) = await posts(NameServer(addresses), receiver, 1)

    assert isinstance(refused, Failure)
    assert refused.reason is Reason.ADDRESS
    assert receiver.connections == 0


async def test_a_name_without_an_address_is_no_connection(receiver: Receiver) -> None:
    (failed,) = await posts(NameServer([]), receiver, 1)

    assert isinstance(failed, Failure)
    assert failed.reason is Reason.CONNECTION
    assert "hooks.example has no address" in failed.says


async def test_a_proxy_in_the_environment_is_not_used(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    assert await posts(NameServer(["127.0.0.1"]), receiver, 1) == [Answer(200)]


async def test_cookies_are_forgotten(receiver: Receiver) -> None:
    receiver.otherwise = answer(set_cookie="a=b; Path=/")

    await posts(NameServer(["127.0.0.1"]), receiver, 2)

    assert ["cookie" in call.headers for call in await receiver.some(2)] == [False, False]


async def test_a_silent_name_server_is_asked_by_one_thread_however_many_give_up(silent: Silent) -> None:
    names = Names(silent)
    for _ in range(3):
        with suppress(TimeoutError):
            async with asyncio.timeout(0.01):
                await names.addresses("slow.example")
    last = asyncio.create_task(names.addresses("slow.example"))
    assert await asyncio.to_thread(silent.asked.acquire)
    silent.let_go.set()
    with pytest.raises(NameUnknown):
        await last
    assert not silent.asked.acquire(blocking=False)
    names.close()
