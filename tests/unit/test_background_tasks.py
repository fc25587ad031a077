"""Tests that no background task dies in silence: its error is logged, or fails whoever depends on it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from bridge.broker.client import connection
from bridge.broker.client.acknowledger import Acknowledger
from bridge.broker.client.connection import BrokerConnection
from bridge.broker.declared.declared import Declared
from bridge.broker.ready.taker import Taker
from bridge.door.connection import Connection
from bridge.loops.consuming import work
from bridge.model import background
from bridge.model.errors import BrokerUnavailable, StoreUnavailable
from bridge.model.group_commit import GroupCommit
from bridge.model.message import Copy, Envelope
from bridge.model.recent import Recent
from bridge.service.known_topics import KnownTopics
from bridge.service.pools.worker_rpc import WorkerRpc
from bridge.service.protocol.arrivals import Arrivals
from bridge.service.pulling.dispatcher import Tools
from bridge.service.service import Service
from bridge.service.systemd import Reporter
from bridge.store.keys import Keys

COPY = Copy(
    topic="orders",
    id="o-1",
    epoch=1,
    nonce=1,
    attempt=1,
    max_retry=3,
    due_ms=5,
    expires_ms=0,
    created_ms=5,
    envelope=Envelope(body=b"1"),
)


class Bug(Exception):
    pass


class Buggy:
    """Raises a bug for so many calls of any of its methods, and returns `answer` from then on."""

    def __init__(self, times: int = 1_000, answer: Any = None) -> None:
        self.calls, self._times, self._answer = 0, times, answer

    async def __call__(self, *_args: Any, **_named: Any) -> Any:
        self.calls += 1
        if self.calls <= self._times:
            raise Bug
        return self._answer

    def __getattr__(self, name: str) -> Buggy:
        return self


@pytest.fixture(autouse=True)
def _nothing_logged_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "_logged_s", Recent[str, float](32))


async def failed_tasks(act: Callable[[], Awaitable[object]]) -> list[str]:
    """The tasks that are logged as failed while `act` runs and soon after."""
    with capture_logs() as lines:
        await act()
        for _ in range(5):
            await asyncio.sleep(0)
    return [line["task"] for line in lines if line["event"] == "task.failed" and line["log_level"] == "error"]


async def raising(error: BaseException) -> None:
    raise error


async def test_error_is_logged_once_and_a_server_that_is_away_never() -> None:
    async def begin() -> None:
        for name, error in (("a", Bug()), ("a", Bug()), ("b", Bug()), ("a", KeyError()), ("a", StoreUnavailable("x"))):
            await asyncio.wait([background.begin(raising(error), name)])
        background.begin(asyncio.sleep(60), "cancelled").cancel()

    assert await failed_tasks(begin) == ["a", "b", "a"]


async def test_look_for_topics_goes_on_after_an_error() -> None:
    store = Buggy(times=1, answer=[1])
    context: Any = SimpleNamespace(
        store=store, records=SimpleNamespace(keys=Keys("delay")), broker=SimpleNamespace(declared=None)
    )
    known = KnownTopics(context)

    async def poll() -> None:
        with known.awaiting(["orders"]) as listed:
            await asyncio.wait_for(listed.wait(), 5)

    assert await failed_tasks(poll) == ["look for topics"]
    assert store.calls == 2


async def test_arrivals_are_noted_again_after_an_error() -> None:
    context: Any = SimpleNamespace(store=None, records=SimpleNamespace(keys=Keys("delay")))
    arrivals = Arrivals(context)
    stored: Any = Buggy(times=1)
    arrivals._stored = stored

    async def note() -> None:
        for _ in range(2):
            arrivals.note(COPY)
            assert arrivals._noting is not None
            await asyncio.wait([arrivals._noting])

    assert await failed_tasks(note) == ["note arrivals"]
    assert stored.calls == 2


async def test_dead_queue_whose_declare_meets_a_bug_is_not_tried_for_each_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names: Any = SimpleNamespace(lanes=1)
    nothing: Any = SimpleNamespace()
    monkeypatch.setattr("bridge.broker.declared.declared.Wheel", lambda *_, **__: SimpleNamespace(is_declared=False))
    declared = Declared(nothing, names, delivery_limit=1, publishers=[], listed=nothing)
    ensure = Buggy()
    monkeypatch.setattr(declared, "ensure_dead", ensure)

    async def expect() -> None:
        for _ in range(3):
            declared.expect_dead_letter("orders")
            await asyncio.wait(declared._expecting.values()) if declared._expecting else None

    assert await failed_tasks(expect) == ["declare a dead queue"]
    assert ensure.calls == 1


async def test_work_for_pulls_that_fails_is_logged() -> None:
    nothing: Any = None
    tools = Tools(nothing, nothing, nothing, nothing, nothing)

    async def begin() -> None:
        tools.begin(raising(Bug()))
        await tools.finish()

    assert await failed_tasks(begin) == ["pulls of a topic"]


async def test_worker_that_can_not_answer_logs_why() -> None:
    asking, asked = WorkerRpc.of(["api-1", "api-2"])
    asked.listen({"health": Buggy()})
    try:

        async def ask() -> None:
            assert await asking.ask("health") == {"api-2": None}

        assert await failed_tasks(ask) == ["answer another worker"]
    finally:
        asked.end()
        for rpc in (asking, asked):
            rpc.close()


async def test_channel_that_can_not_be_closed_is_logged() -> None:
    nothing: Any = None
    acknowledger = Acknowledger(nothing)

    async def retire() -> None:
        acknowledger.retire(Buggy())
        assert acknowledger._closing is not None
        await asyncio.wait([acknowledger._closing])

    assert await failed_tasks(retire) == ["close a channel"]


async def test_connection_that_can_not_be_closed_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_close", Buggy())
    self: Any = SimpleNamespace(
        generation=1, _crashes=0, _raw=SimpleNamespace(transport=SimpleNamespace(has_crashed=False)), _closing=set()
    )

    assert await failed_tasks(lambda: BrokerConnection.drop(self)) == ["close a connection"]
    assert (self._raw, self._closing) == (None, set())


async def test_get_that_fails_by_a_bug_is_logged_and_the_others_count(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing: Any = SimpleNamespace()
    taker = Taker.__new__(Taker)
    get = Buggy(times=1, answer=(nothing, 0))
    monkeypatch.setattr(taker, "_get", get, raising=False)

    async def take() -> None:
        assert await taker._get_few("ready.orders", 2) == [nothing]

    assert await failed_tasks(take) == ["get messages"]


async def test_consumer_that_fails_by_a_bug_fails_its_loop() -> None:
    consumer: Any = SimpleNamespace(until_closed=Buggy())

    with pytest.raises(Bug):
        await work(consumer, lambda _: asyncio.sleep(60))
    consumer.until_closed = Buggy(times=0)
    with pytest.raises(BrokerUnavailable):
        await work(consumer, lambda _: asyncio.sleep(60))


async def test_group_with_too_few_results_fails_its_callers_and_frees_its_place() -> None:
    answers = [[], ["done"]]

    async def commit(_: object) -> list[str]:
        return answers.pop(0)

    line = GroupCommit[str, str](commit, at_once=1, most=10)
    with pytest.raises(ValueError, match="zip"):
        await line.submit("a")
    assert await line.submit("b") == "done"


async def test_client_of_a_door_is_closed_if_the_door_fails() -> None:
    nothing: Any = Buggy()
    transport: Any = SimpleNamespace(closed=0, set_write_buffer_limits=lambda **_: None, abort=lambda: None)
    transport.close = lambda: setattr(transport, "closed", transport.closed + 1)
    client = Connection(nothing, lambda _: None, lambda _: None)

    async def connect() -> None:
        client.connection_made(transport)
        assert client._connecting is not None
        await asyncio.wait([client._connecting])

    assert await failed_tasks(connect) == ["connect a client"]
    assert transport.closed == 1


async def test_beat_for_systemd_that_fails_is_logged() -> None:
    notices: Any = SimpleNamespace(ready=lambda: None, watchdog_s=1)
    pools: Any = SimpleNamespace(alive=True, own_health=asyncio.Event().wait)
    reporter = Reporter(pools, notices)  # `notices.alive` is missing

    async def start() -> None:
        reporter.start()
        await asyncio.wait(reporter._tasks[:1])

    assert await failed_tasks(start) == ["tell systemd"]
    reporter.end()


async def test_sends_that_fail_while_a_service_stops_are_logged() -> None:
    finishes = SimpleNamespace(finish=Buggy(times=0))
    self: Any = SimpleNamespace(
        _running=[],
        upserting=SimpleNamespace(finish=Buggy()),
        sending=finishes,
        pulling=finishes,
        settings=SimpleNamespace(grace=1_000),
        close=Buggy(times=0),
    )

    assert await failed_tasks(lambda: Service.stop(self)) == ["stop"]
