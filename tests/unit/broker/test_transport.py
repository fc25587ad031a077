"""Tests how a connection begins, stays alive and ends."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from pamqp import commands as spec
from pamqp.base import Frame
from pamqp.body import ContentBody
from pamqp.commands import Connection
from pamqp.frame import FrameTypes, marshal
from pamqp.header import ContentHeader
from pamqp.heartbeat import Heartbeat

from bridge.broker.client import transport as module
from bridge.broker.client.channel import Channel
from bridge.broker.client.handshake import _log_in, connect
from bridge.broker.client.protocol import FRAME, OVERHEAD
from bridge.broker.client.publisher import Outgoing, _frames
from bridge.broker.copies.properties import Properties
from bridge.model.errors import BrokerUnavailable
from bridge.settings.amqp_login import Login, read_login
from tests.unit.broker.wire import Wire
from topology.errors import LoginRefused, VhostRefused

LOGIN = read_login("amqp://user:se%20cret@host:5672/shop%2Feu")
START = Connection.Start(0, 9, {"product": "RabbitMQ", "version": "4.3.6"}, "PLAIN AMQPLAIN", "en_US")
TUNE = Connection.Tune(2_047, 131_072, 60)
_TURNS = 20  # of the event loop: more than a login takes to write and to wait for the next answer


async def logged_in(wire: Wire, *answers: Frame, login: Login = LOGIN) -> list[Any]:
    """Logs in while RabbitMQ sends these methods. Returns what was written."""
    logging_in = asyncio.create_task(_log_in(wire.transport, login, {"product": "delaybridge"}))
    for answer in answers:
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        wire.say(0, answer)
    await logging_in
    return [frame for _, frame in wire.take()]


async def test_login_names_user_virtual_host_and_limits() -> None:
    wire = Wire()

    start, tune, opened = await logged_in(wire, START, TUNE, Connection.OpenOk())

    assert (start.mechanism, start.response) == ("PLAIN", "\0user\0se cret")
    assert start.client_properties["product"] == "delaybridge"
    assert (tune.channel_max, tune.frame_max, tune.heartbeat) == (2_047, 131_072, 5)
    assert opened.virtual_host == "shop/eu"
    assert wire.transport.server_properties["version"] == "4.3.6"
    wire.transport.abort(BrokerUnavailable("end"))


async def test_login_by_certificate_names_no_user() -> None:
    wire = Wire()
    login = read_login("amqps://user:secret@host:5671?auth=external&heartbeat=0")

    start, tune, _ = await logged_in(
        wire, Connection.Start(0, 9, {}, "PLAIN EXTERNAL", "en_US"), TUNE, Connection.OpenOk(), login=login
    )

    assert (start.mechanism, start.response, tune.heartbeat) == ("EXTERNAL", "", 0)


@pytest.mark.parametrize(
    ("tune", "frame_max", "channel_max"),
    [(Connection.Tune(0, 0, 0), 131_072, 0), (Connection.Tune(7, 4_096, 60), 4_096, 7)],
)
async def test_limits_of_rabbitmq_are_kept(tune: Connection.Tune, frame_max: int, channel_max: int) -> None:
    wire = Wire()

    _, agreed, _ = await logged_in(wire, START, tune, Connection.OpenOk())

    assert (agreed.frame_max, agreed.channel_max) == (frame_max, channel_max)
    wire.transport.abort(BrokerUnavailable("end"))
    channel = Channel(Wire().transport)
    channel.transport.limit(largest_frame=tune.frame_max or 0, channels=0)
    message = Outgoing("delay", "t", Properties(message_id="m"), b"x" * 300_000)
    sizes = [int.from_bytes(piece[3:7], "big") for piece in _frames(channel, message) if len(piece) == FRAME.size]
    assert sum(sizes) == 300_000
    assert max(sizes) == frame_max - OVERHEAD
    with pytest.raises(ValueError, match="headers are"):
        _frames(channel, Outgoing("delay", "t", Properties(headers={"x": "y" * frame_max}), b""))


@pytest.mark.parametrize(
    ("answers", "error", "says"),
    [
        ([Connection.Start(0, 9, {}, "EXTERNAL", "en_US")], LoginRefused, "the logins EXTERNAL"),
        ([START, Connection.Close(403, "ACCESS_REFUSED - Login was refused", 0, 0)], LoginRefused, "password is wrong"),
        (
            [START, TUNE, Connection.Close(530, "NOT_ALLOWED - no vhost", 10, 40)],
            VhostRefused,
            "NOT_ALLOWED - no vhost",
        ),
        ([START, Connection.Close(541, "INTERNAL_ERROR", 0, 0)], BrokerUnavailable, "INTERNAL_ERROR"),
        ([TUNE], BrokerUnavailable, "answered Connection.Tune where the bridge needs Connection.Start"),
    ],
    ids=["no such login", "password", "virtual host", "closed", "order"],
)
async def test_refused_login_says_why(answers: list[Frame], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        await logged_in(Wire(), *answers)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"AMQP\x00\x01\x00\x00", "AMQP"),
        (b"HTTP/1.1 400 Bad Request\r\n", "HTTP/1.1"),
        (b"\x01\x00\x00\x00\x00\x00\x04\x00\x0a\x00\x32\xcd", "without its end"),
        (b"\x01\x00\x00\x7f\x00\x00\x00", "x7f"),
        (b"\x01\x00\x00\x00\x00\x00\x04\x00\x0a\xff\xff\xce", "Unknown method"),
    ],
    ids=["AMQP 1.0", "HTTP", "no end", "too large", "unknown method"],
)
async def test_server_that_speaks_something_else_ends_the_connection_with_its_bytes(data: bytes, says: str) -> None:
    wire = Wire()

    wire.feed(data + b"\0" * 8)

    assert wire.aborted
    assert says in str(wire.transport.error)


async def test_lost_connection_ends_each_call_with_the_reason() -> None:
    wire = Wire()
    channel = wire.channel()
    calls = [asyncio.create_task(channel.depth("q")), asyncio.create_task(channel.get("q"))]
    await asyncio.sleep(0)

    wire.transport.connection_lost(ConnectionResetError("reset by peer"))

    for call in calls:
        with pytest.raises(BrokerUnavailable, match="reset by peer"):
            await call
    assert wire.transport.ended.done()
    with pytest.raises(BrokerUnavailable, match="reset by peer"):
        wire.transport.write(b"")


async def test_close_by_rabbitmq_is_answered_and_names_its_code() -> None:
    wire = Wire()

    wire.say(0, Connection.Close(541, "INTERNAL_ERROR", 0, 0))

    assert wire.names() == [(0, "Connection.CloseOk")]
    assert wire.closed
    assert wire.transport.ended_by is not None
    assert wire.transport.ended_by.code == 541
    assert "INTERNAL_ERROR" in str(wire.transport.error)


async def test_close_whose_text_is_no_utf_8_keeps_its_code() -> None:
    wire = Wire()

    wire.feed(marshal(Connection.Close(541, "no '?'", 0, 0), 0).replace(b"?", b"\xe4"))

    assert wire.transport.has_crashed
    assert wire.closed


async def test_server_that_ends_the_stream_ends_the_connection() -> None:
    wire = Wire()

    wire.transport.eof_received()

    assert "cut the connection" in str(wire.transport.error)


@pytest.mark.parametrize("answer", [Connection.CloseOk(), Connection.Close(320, "CONNECTION_FORCED", 0, 0)])
async def test_nothing_is_written_to_a_connection_that_is_being_closed(answer: Frame) -> None:
    wire = Wire()
    channel = wire.channel()
    closing = asyncio.create_task(wire.transport.close())
    await asyncio.sleep(0)

    assert not wire.transport.is_open
    assert not channel.is_open
    with pytest.raises(BrokerUnavailable, match="closes the connection"):
        channel.write(b"")
    assert wire.names() == [(0, "Connection.Close")]
    wire.say(0, answer)

    await asyncio.gather(closing, return_exceptions=True)
    assert wire.names() == [(0, "Connection.CloseOk")] * isinstance(answer, Connection.Close)


async def test_frames_of_channels_that_arrive_while_the_connection_is_being_closed_are_no_error() -> None:
    wire = Wire()
    wire.transport.server_properties = {"capabilities": {"accept_consumer_cancel_ok": True}}
    channel, other = wire.channel(), wire.channel()
    consuming = asyncio.create_task(channel.consume("q", lambda _: None, "ours"))
    asking = asyncio.create_task(channel.depth("q"))
    await asyncio.sleep(0)
    wire.say(1, spec.Basic.ConsumeOk(consumer_tag="ours"))
    await consuming
    closing = asyncio.create_task(wire.transport.close())
    await asyncio.sleep(0)
    wire.take()

    wire.say(1, spec.Basic.Cancel("ours", nowait=True))
    wire.say(2, spec.Channel.Close(404, "NOT_FOUND", 60, 40))
    asking.cancel()
    await asyncio.wait([asking])

    assert asking.cancelled()
    assert not other.is_open
    assert wire.take() == []
    wire.say(0, Connection.CloseOk())
    await closing


async def test_connection_whose_caller_gives_up_is_closed() -> None:
    cut: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.set()
        cut.set_result(await reader.read())
        writer.close()

    asked = asyncio.Event()
    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        connecting = asyncio.create_task(connect(read_login(f"amqp://a:b@127.0.0.1:{port}"), tls=None, about={}))
        await asked.wait()
        connecting.cancel()
        await asyncio.wait([connecting])
        assert connecting.cancelled()
        with suppress(ConnectionResetError):
            assert (await cut).startswith(b"AMQP")


async def test_frame_that_is_larger_than_a_read_arrives_whole() -> None:
    wire = Wire()
    channel = wire.channel()
    getting = asyncio.create_task(channel.get("q"))
    await asyncio.sleep(0)
    headers: Any = {"x": "h" * 200_000}
    frames: list[FrameTypes] = [
        spec.Basic.GetOk(delivery_tag=1, exchange="", routing_key="q", message_count=0),
        ContentHeader(properties=spec.Basic.Properties(headers=headers), body_size=150_000),
        ContentBody(b"b" * 150_000),
    ]

    wire.say(1, *frames)

    found, _ = await getting
    assert found is not None
    assert (found.properties.headers, found.body) == (headers, b"b" * 150_000)


async def test_publishers_wait_while_rabbitmq_blocks_them() -> None:
    wire = Wire()
    wire.say(0, Connection.Blocked("low on memory"))
    assert wire.transport.is_blocked
    waiting = asyncio.create_task(wire.transport.until_unblocked())
    await asyncio.sleep(0)
    assert not waiting.done()

    wire.say(0, Connection.Unblocked())

    await waiting
    assert not wire.transport.is_blocked


async def test_blocked_publishers_are_told_that_the_connection_is_lost() -> None:
    wire = Wire()
    wire.say(0, Connection.Blocked("low on memory"))
    waiting = asyncio.create_task(wire.transport.until_unblocked())
    await asyncio.sleep(0)

    wire.transport.connection_lost(None)

    with pytest.raises(BrokerUnavailable):
        await waiting


class Clock:
    """A loop's clock and its timers, which a test moves on."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.timers: list[tuple[float, tuple[Any, ...]]] = []

    def time(self) -> float:
        return self.now_s

    def call_at(self, when_s: float, *call: Any) -> asyncio.TimerHandle:
        self.timers.append((when_s, call))
        return asyncio.get_running_loop().call_later(3_600, lambda: None)

    def run_to(self, now_s: float, *, late: bool = False) -> None:
        """Runs timers in time; with `late` all at the end, as in a process that was stopped."""
        while self.timers and self.timers[0][0] <= now_s:
            when_s, (function, *arguments) = self.timers.pop(0)
            self.now_s = now_s if late else when_s
            function(*arguments)
        self.now_s = now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(module, "_clock", lambda: clock)
    return clock


async def test_heartbeats_go_out_and_silence_ends_the_connection(clock: Clock) -> None:
    wire = Wire()
    wire.transport.keep_alive(5)

    clock.run_to(10)
    assert wire.names() == [(0, "Heartbeat")] * 4
    wire.say(0, Heartbeat())
    clock.run_to(27)
    assert wire.transport.is_open
    clock.run_to(31)
    assert "silent" in str(wire.transport.error)


async def test_process_that_was_stopped_does_not_take_itself_for_a_silent_server(clock: Clock) -> None:
    wire = Wire()
    wire.transport.keep_alive(5)

    clock.run_to(60, late=True)
    assert wire.transport.is_open
    assert wire.names() == [(0, "Heartbeat")]
    wire.say(0, Heartbeat())
    clock.run_to(75)
    assert wire.transport.is_open
    clock.run_to(80)
    assert "silent" in str(wire.transport.error)


async def test_no_heartbeat_is_sent_or_awaited_where_none_is_asked_for(clock: Clock) -> None:
    wire = Wire()
    wire.transport.keep_alive(0)

    clock.run_to(3_600)

    assert wire.names() == []
    assert wire.transport.is_open


async def test_no_more_channels_are_opened_than_rabbitmq_allows() -> None:
    wire = Wire()
    wire.transport.limit(largest_frame=0, channels=2)
    wire.channel(), wire.channel()

    with pytest.raises(BrokerUnavailable, match="all 2 channels"):
        wire.channel()
    wire.say(2, spec.Channel.Close(404, "NOT_FOUND", 0, 0))
    assert wire.channel().number == 2
