"""Speaks AMQP 0-9-1 with one client: the handshake, frames, and channels."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Final

from pamqp import commands, frame
from pamqp.base import Frame
from pamqp.commands import Basic
from pamqp.heartbeat import Heartbeat

from tests.simulate.rabbitmq.channel import Channel
from tests.simulate.rabbitmq.clock import Timer
from tests.simulate.rabbitmq.declarations import Declarations
from tests.simulate.rabbitmq.deliveries import Deliveries
from tests.simulate.rabbitmq.errors import Refusal, not_modelled
from tests.simulate.rabbitmq.login import check_login, server_properties
from tests.simulate.rabbitmq.state import State
from tests.simulate.rabbitmq.tables import Properties
from tests.simulate.rabbitmq.turn import Turn
from tests.simulate.rabbitmq.wire import END, FRAME, HEARTBEAT, METHOD, PROTOCOL, Publish, content, method_of

if TYPE_CHECKING:
    from tests.simulate.rabbitmq.broker import Broker

_CHANNELS: Final = 2_047
_LARGEST_FRAME: Final = 131_072


class _Phase(Enum):
    GREETING = "the client sends the protocol header"
    LOGIN = "the client opens the connection"
    OPEN = "channels may be opened"
    CLOSING = "the broker has sent a Close, and waits for Close-Ok"
    CLOSED = "the TCP connection has ended"


class Connection:
    """A client's TCP connection. `wakeup` is called when output exists, or the broker has closed the connection."""

    def __init__(self, broker: Broker, state: State, turn: Turn) -> None:
        self.wakeup: Callable[[], None] | None = None
        self.user = ""
        self.capabilities: frozenset[str] = frozenset()
        self.declarations = Declarations(state, self)
        self._broker = broker
        self._state = state
        self._turn = turn
        self._phase = _Phase.GREETING
        self._input = b""
        self._output: list[bytes] = []
        self._frame_size = _LARGEST_FRAME
        self._channels: dict[int, Channel] = {}
        self._closing_channels: set[int] = set()
        self._publishes: dict[int, Publish] = {}
        self._is_blocked = False
        self._beat: Timer | None = None

    # The interface

    @property
    def closed(self) -> bool:
        """Whether the broker has closed the TCP connection."""
        return self._phase is _Phase.CLOSED

    def received(self, data: bytes) -> None:
        """Takes bytes from the client."""
        if not self.closed:
            with self._turn:
                self._input += data
                self._read()

    def output(self) -> bytes:
        """Returns the bytes written since the last call."""
        written = b"".join(self._output)
        self._output.clear()
        return written

    def lost(self) -> None:
        """Ends the connection: the client has gone, or the broker cuts it."""
        with self._turn:
            self._end_channels()
            self._phase = _Phase.CLOSED
            self._broker.forget(self)
            self._wake()

    # For the broker

    def fail(self, refusal: Refusal) -> None:
        """Closes the connection with a reason."""
        if self._phase in (_Phase.CLOSING, _Phase.CLOSED):
            return
        self._end_channels()
        self._phase = _Phase.CLOSING
        self._is_blocked = False
        self.send(0, commands.Connection.Close(refusal.code, refusal.text, 0, 0))

    def unblock(self) -> None:
        """Reads on after an alarm."""
        if self._is_blocked:
            self._is_blocked = False
            if "connection.blocked" in self.capabilities:
                self.send(0, commands.Connection.Unblocked())
            self._read()

    def deliveries(self) -> list[Deliveries]:
        """Returns the deliveries of each channel."""
        return [channel.deliveries for channel in self._channels.values()]

    # Writing

    def send(self, number: int, method: Frame) -> None:
        self._write(frame.marshal(method, number))

    def send_content(self, number: int, method: Frame, properties: Properties, body: bytes) -> None:
        self._write(content(number, method, properties, body, frame_size=self._frame_size))

    def _write(self, data: bytes) -> None:
        if not self.closed:
            self._output.append(data)
            self._wake()

    def _wake(self) -> None:
        self._turn.at_end(self._call_wakeup, last=True)

    def _call_wakeup(self) -> None:
        if self.wakeup is not None:
            self.wakeup()

    # Reading

    def _read(self) -> None:
        if self._phase is _Phase.GREETING and len(self._input) >= len(PROTOCOL):
            self._greet()
        at = 0
        while not self._is_blocked and not self.closed and len(self._input) - at > FRAME.size:
            kind, number, size = FRAME.unpack_from(self._input, at)
            start, end = at + FRAME.size, at + FRAME.size + size
            if end >= len(self._input):
                break
            try:
                self._frame(kind, number, self._input[start:end], self._input[end : end + 1])
            except Refusal as refusal:
                self.fail(refusal)
            at = end + 1
        self._input = self._input[at:]

    def _greet(self) -> None:
        greeting, self._input = self._input[: len(PROTOCOL)], self._input[len(PROTOCOL) :]
        if greeting != PROTOCOL:
            self._write(PROTOCOL)
            self.lost()
            return
        self._phase = _Phase.LOGIN
        self.send(
            0,
            commands.Connection.Start(
                server_properties=server_properties(self._state.rules), mechanisms="PLAIN AMQPLAIN", locales="en_US"
            ),
        )

    def _frame(self, kind: int, number: int, payload: bytes, end: bytes) -> None:
        if end != END:
            raise Refusal(501, f"type {kind}, payload without its end")
        if kind == HEARTBEAT:
            return
        if self._phase is _Phase.CLOSING:
            if kind == METHOD and isinstance(method_of(payload), commands.Connection.CloseOk):
                self.lost()
            return
        if number == 0:
            self._own_method(method_of(payload))
        elif number in self._closing_channels:
            self._closing(number, kind, payload)
        elif number in self._channels:
            self._channel_frame(self._channels[number], kind, payload)
        elif kind == METHOD and isinstance(method_of(payload), commands.Channel.Open):
            if self._phase is not _Phase.OPEN or number > _CHANNELS:
                raise Refusal(504, f"channel {number} can't be opened")
            self._channels[number] = Channel(number, self, self._state, self._turn)
            self.send(number, commands.Channel.OpenOk())
        else:
            raise Refusal(504, "expected 'channel.open'")

    def _own_method(self, method: Frame) -> None:
        match method:
            case commands.Connection.StartOk():
                self.user = check_login(method)
                capabilities = (method.client_properties or {}).get("capabilities")
                if isinstance(capabilities, dict):
                    self.capabilities = frozenset(name for name, has in capabilities.items() if has is True)
                self.send(0, commands.Connection.Tune(_CHANNELS, _LARGEST_FRAME, 0))
            case commands.Connection.TuneOk():
                self._tuned(method)
            case commands.Connection.Open():
                if method.virtual_host != "/":
                    raise Refusal(530, f"vhost {method.virtual_host} not found")
                self._phase = _Phase.OPEN
                self.send(0, commands.Connection.OpenOk())
            case commands.Connection.Close():
                self._end_channels()
                self.send(0, commands.Connection.CloseOk())
                self._phase = _Phase.CLOSING  # the client ends the TCP connection
            case _:
                raise not_modelled(method.name)

    def _tuned(self, method: commands.Connection.TuneOk) -> None:
        self._frame_size = method.frame_max or 0
        if not (0 < self._frame_size <= _LARGEST_FRAME and 0 < (method.channel_max or 0) <= _CHANNELS):
            self.lost()  # a limit beyond the broker's ends the connection without a word
        elif method.heartbeat:
            self._beat_later(method.heartbeat * 500.0)

    def _channel_frame(self, channel: Channel, kind: int, payload: bytes) -> None:
        number, publish = channel.number, self._publishes.get(channel.number)
        if kind == METHOD:
            method = method_of(payload)
            if publish is not None:
                raise Refusal(505, f"expected content header for class 60, got non content header frame {method.name}")
            if isinstance(method, Basic.Publish):
                self._publishes[number] = Publish(method, payload)
            elif isinstance(method, commands.Channel.Close):
                del self._channels[number]
                channel.end()
                self.send(number, commands.Channel.CloseOk())
            else:
                channel.take(method, payload)
            return
        if publish is None:
            raise Refusal(505, "expected method frame, got non method frame instead")
        complete = publish.add(kind, payload)
        if complete is not None:
            del self._publishes[number]
            channel.take(publish.method, publish.payload, complete)
        if self._broker.alarm is not None:
            self._block(self._broker.alarm)

    def _block(self, reason: str) -> None:
        """Reads no more: during an alarm a connection is blocked by its first publish."""
        if self._phase is _Phase.OPEN:
            self._is_blocked = True
            if "connection.blocked" in self.capabilities:
                self.send(0, commands.Connection.Blocked(reason))

    def _closing(self, number: int, kind: int, payload: bytes) -> None:
        """Takes a frame of a channel that the broker has closed."""
        method = method_of(payload) if kind == METHOD else None
        if isinstance(method, commands.Channel.CloseOk):
            self._closing_channels.discard(number)
        elif isinstance(method, commands.Channel.Close):
            self.send(number, commands.Channel.CloseOk())

    # Ending

    def channel_failed(self, channel: Channel, refusal: Refusal) -> None:
        if refusal.hard:
            self.fail(refusal)
        elif self._channels.pop(channel.number, None) is not None:
            channel.end()
            self._publishes.pop(channel.number, None)
            self._closing_channels.add(channel.number)
            self.send(channel.number, commands.Channel.Close(refusal.code, refusal.text, 0, 0))

    def _end_channels(self) -> None:
        channels, self._channels = self._channels, {}
        for channel in channels.values():
            channel.end()
        self._publishes.clear()
        self.declarations.connection_ended()
        if self._beat is not None:
            self._beat.cancel()

    def _beat_later(self, interval_ms: float) -> None:
        self._beat = self._state.clock.at(self._state.clock.now_ms + interval_ms, lambda: self._beat_now(interval_ms))

    def _beat_now(self, interval_ms: float) -> None:
        self._write(frame.marshal(Heartbeat(), 0))
        self._beat_later(interval_ms)
