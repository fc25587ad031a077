"""Passes a client's bytes on to the broker, and changes two methods in them. Pure.

A declare of the plugin's exchange type becomes passive. A publish with `x-delay` goes to the ingress of its exchange,
without the header that makes RabbitMQ 4.4 hold the message. All other bytes pass unchanged. A body of any size passes
as it comes. The door holds a method or a header until it is whole. It holds a publish until its header frame has come,
because only that frame shows an `x-delay`.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final

from bridge.door import delays, methods
from bridge.door.methods import DECLARE, HEAD_BYTES, LARGEST_PUBLISH, PUBLISH, BadFrame

GREETING: Final = b"AMQP\x00\x00\x09\x01"
LARGEST_HELD: Final = 131_072 + 8
"""The largest method or header frame, in bytes: as large as RabbitMQ's own default allows."""
MOST_HELD: Final = 256
"""The most publishes of a connection that may wait for their header at once, each on another channel."""

_HEAD: Final = Struct(">BHI")
_METHOD_ID: Final = Struct(">I")
_METHOD, _HEADER, _BODY, _HEARTBEAT = 1, 2, 3, 8
_END: Final = 0xCE
_MARK: Final = delays.NAME  # the name of the plugin's exchange type begins with these bytes too


class Requests:
    """Changes the bytes that one client sends. `ingress_of`: returns the exchange that takes delayed messages of an
    exchange; None: publishes to that exchange stay as they are.

    `delayed` counts the publishes that go to an ingress, `made_passive` the declares that became passive.
    """

    def __init__(self, ingress_of: Callable[[bytes], bytes | None]) -> None:
        self._ingress_of = ingress_of
        self._greeted = False
        self._rest = b""  # the beginning of a frame that is not whole yet
        self._streaming = 0  # bytes that are missing of a body's frame whose beginning has passed
        self._publishes: dict[int, bytes] = {}  # by channel: publishes whose header frame has not come
        self.delayed = 0
        self.made_passive = 0

    @property
    def is_whole(self) -> bool:
        """Whether the bytes passed so far end at the end of a frame, so that the door may insert its own frame next.
        False until the client has sent its protocol header."""
        return self._greeted and not self._streaming

    @property
    def held_bytes(self) -> int:
        return len(self._rest) + sum(map(len, self._publishes.values()))

    def feed(self, data: bytes) -> bytes:
        """Takes the client's next bytes, and returns the bytes that may go to the broker now.

        Raises:
            BadFrame: the bytes are not AMQP 0-9-1, a frame is too large, or an ingress's name is too long; or too many
                publishes wait for their headers.
        """
        if self._rest:
            data = self._rest + data
            self._rest = b""
        place = 0
        if not self._greeted:
            if len(data) < len(GREETING):
                self._rest = data
                return b""
            if not data.startswith(GREETING):
                raise BadFrame(f"the client begins with {data[:8]!r}, which is not AMQP 0-9-1")
            self._greeted = True
            place = len(GREETING)
        if self._streaming:
            place = min(self._streaming, len(data))
            self._streaming -= place
        return self._frames(data, place)

    def _frames(self, data: bytes, place: int) -> bytes:  # noqa: PLR0912, PLR0915 - one loop over bytes, on the fast way
        size_of_data = len(data)
        marked = _MARK in data or bool(self._publishes)
        passed = 0  # data before it is in `out`
        out: list[bytes] = []
        while size_of_data - place >= HEAD_BYTES:
            kind, channel, size = _HEAD.unpack_from(data, place)
            end = place + HEAD_BYTES + size + 1
            if kind in {_BODY, _HEARTBEAT}:
                if end > size_of_data:
                    self._streaming = end - size_of_data
                    place = size_of_data
                    break
                place = end
                continue
            if kind not in {_METHOD, _HEADER} or size < 4:
                raise BadFrame(f"a frame of type {kind} with {size} bytes; AMQP 0-9-1 has no such frame")
            if end - place > LARGEST_HELD:
                raise BadFrame(f"a frame of {end - place} bytes without a body; the limit is {LARGEST_HELD}")
            if end > size_of_data:
                break
            if data[end - 1] != _END:
                raise BadFrame(f"a frame of type {kind} does not end with the octet 206")
            if kind == _HEADER:
                if (publish := self._publishes.pop(channel, None)) is not None:
                    out.append(data[passed:place])
                    out.append(self._routed(publish, data[place:end]))
                    passed = end
                place = end
                continue
            if channel in self._publishes:
                raise BadFrame(f"a method came on channel {channel}, where the header of a publish must come")
            method = _METHOD_ID.unpack_from(data, place + HEAD_BYTES)[0]
            if method == PUBLISH:
                header_end = self._header_behind(data, end, channel)
                if header_end:
                    if marked and data.find(_MARK, end, header_end) >= 0:
                        publish = data[place:end]
                        out.append(data[passed:place])
                        out.append(self._routed(publish, data[end:header_end]))
                        passed = header_end
                    place = header_end
                    continue
                self._hold(channel, data[place:end])
                out.append(data[passed:place])
                passed = end
            elif method == DECLARE and marked and (passive := methods.as_passive(data[place:end])) is not None:
                self.made_passive += 1
                out += (data[passed:place], passive)
                passed = end
            place = end
        self._rest = data[place:]
        if not out:
            return data if place == size_of_data else data[:place]
        out.append(data[passed:place])
        return b"".join(out)

    @staticmethod
    def _header_behind(data: bytes, place: int, channel: int) -> int:
        """Returns the offset behind the channel's header frame that begins at `place`; 0: no whole header frame begins
        there."""
        if len(data) - place < HEAD_BYTES:
            return 0
        kind, of_channel, size = _HEAD.unpack_from(data, place)
        end: int = place + HEAD_BYTES + size + 1
        if kind != _HEADER or of_channel != channel or end > len(data) or data[end - 1] != _END:
            return 0
        return end

    def _hold(self, channel: int, publish: bytes) -> None:
        if len(publish) > HEAD_BYTES + LARGEST_PUBLISH + 1:
            raise BadFrame(f"a publish of {len(publish)} bytes; it has at most {HEAD_BYTES + LARGEST_PUBLISH + 1}")
        if len(self._publishes) >= MOST_HELD:
            raise BadFrame(f"{MOST_HELD} channels have sent a publish without its header; no more may wait for one")
        self._publishes[channel] = publish

    def _routed(self, publish: bytes, header: bytes) -> bytes:
        """Returns the frames of the publish and its header. A publish with a delay goes to the ingress of its
        exchange."""
        if _MARK in header and delays.asks_for_delay(header):
            ingress = self._ingress_of(methods.exchange_of(publish))
            if ingress is not None:
                self.delayed += 1
                return methods.published_to(ingress, publish) + delays.not_held(header)
        return publish + header
