"""Tests what the door changes in the frames of a client, however they are cut into pieces and channels interleave."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import body, frame, header, heartbeat
from pamqp.commands import Basic, Channel, Exchange
from pamqp.common import FieldTable

from bridge.door.delays import asks_for_delay
from bridge.door.ingresses import Ingresses
from bridge.door.methods import BadFrame, published_to
from bridge.door.requests import GREETING, LARGEST_HELD, MOST_HELD, Requests

INGRESSES = Ingresses(lambda exchange: f"delay.in.{exchange}", own="delay", plain=["plain"])
LONG_BODY = b"x-delay" * 40_000


def requests() -> Requests:
    """Those of a client that has sent its greeting."""
    begun = Requests(INGRESSES.of)
    assert begun.feed(GREETING) == GREETING
    return begun


def publish(exchange: str, headers: dict[str, Any] | None, channel: int = 1, content: bytes = b"body") -> list[bytes]:
    """The frames of a publish. The body is in two frames."""
    properties = Basic.Properties(content_type="text/plain", headers=headers, delivery_mode=2)
    half = len(content) // 2
    parts: list[Basic.Publish | header.ContentHeader | body.ContentBody] = [
        Basic.Publish(exchange=exchange, routing_key="key", mandatory=True),
        header.ContentHeader(0, len(content), properties),
        *(body.ContentBody(part) for part in (content[:half], content[half:]) if part),
    ]
    return [frame.marshal(part, channel) for part in parts]


def declare(name: str, kind: str, channel: int = 1, *, passive: bool = False) -> bytes:
    arguments: FieldTable = {"x-delayed-type": "topic"}
    return frame.marshal(
        Exchange.Declare(exchange=name, exchange_type=kind, durable=True, passive=passive, arguments=arguments), channel
    )


@pytest.mark.parametrize(
    ("exchange", "headers", "goes_to"),
    [
        ("orders", {"x-delay": 5_000}, "delay.in.orders"),
        ("orders", {"a": {"x-delay": 7}, "b": [1, "x"], "x-delay": "5000"}, "delay.in.orders"),
        ("orders", {"x-delay": 4_320_000_000}, "delay.in.orders"),
        ("orders", {"x-delay": "soon"}, "delay.in.orders"),
        ("orders", {"x-delay": 0}, "orders"),
        ("orders", {"x-delay": -5_000}, "orders"),
        ("orders", {"x-delay": "-5000"}, "orders"),
        ("orders", {"x-delay": True}, "orders"),
        ("orders", {"inner": {"x-delay": 5_000}}, "orders"),
        ("orders", {"x-delays": 5_000}, "orders"),
        ("orders", {}, "orders"),
        ("orders", None, "orders"),
        ("", {"x-delay": 5_000}, ""),
        ("amq.topic", {"x-delay": 5_000}, "amq.topic"),
        ("plain", {"x-delay": 5_000}, "plain"),
        ("delay", {"x-delay": 5_000}, "delay"),
        ("delay.in", {"x-delay": 5_000}, "delay.in"),
        ("delay.in.orders", {"x-delay": 5_000}, "delay.in.orders"),
        ("delayed", {"x-delay": 5_000}, "delay.in.delayed"),
    ],
)
def test_publish_with_a_delay_goes_to_the_ingress_of_its_exchange(
    exchange: str, headers: dict[str, Any] | None, goes_to: str
) -> None:
    passed = requests().feed(b"".join(publish(exchange, headers)))
    assert passed == b"".join(publish(goes_to, headers))


@pytest.mark.parametrize(
    ("headers", "passed"),
    [
        ({"x-delay": 5_000, "x-opt-delivery-time": 2**41}, {"x-delay": 5_000}),
        ({"x-opt-delivery-time": "soon", "a": {"x-opt-delivery-time": 1}, "x-delay": 1, "b": [1]},
         {"a": {"x-opt-delivery-time": 1}, "x-delay": 1, "b": [1]}),
        ({"x-opt-delivery-times": 1, "x-delay": 1}, {"x-opt-delivery-times": 1, "x-delay": 1}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("whole", [True, False])
def test_delayed_publish_loses_the_header_that_rabbitmq_would_hold_it_by(
    headers: dict[str, Any], passed: dict[str, Any], whole: bool
) -> None:
    sent = b"".join(publish("orders", headers))
    pieces = [sent] if whole else [sent[at : at + 1] for at in range(len(sent))]
    door = requests()
    assert b"".join(map(door.feed, pieces)) == b"".join(publish("delay.in.orders", passed))
    # Without a delay of the bridge's, the header is between the client and RabbitMQ.
    own = b"".join(publish("orders", {"x-opt-delivery-time": 2**41, "x-delay": 0}))
    assert door.feed(own) == own


def test_header_behind_which_nothing_can_be_read_stays_as_it_is() -> None:
    method, properties, *_ = publish("orders", {"x-delay": 5_000, "x-opt-delivery-time": 2**41})
    unknown = properties.replace(b"x-opt-delivery-timel", b"x-opt-delivery-time?")
    assert unknown != properties
    assert requests().feed(method + unknown) == published_to(b"delay.in.orders", method) + unknown


def test_name_of_an_exchange_may_have_other_letters() -> None:
    method, *content = publish("orders", {"x-delay": 5_000})
    passed = requests().feed(published_to("größe".encode(), method) + b"".join(content))
    assert passed == published_to("delay.in.größe".encode(), method) + b"".join(content)


@pytest.mark.parametrize(
    ("value", "later"),
    [
        (b"b\x05", True),
        (b"b\xfb", False),
        (b"B\xfb", True),
        (b"s\xff\xfb", False),
        (b"u\xff\xfb", True),
        (b"I\xff\xff\xff\xfb", False),
        (b"i\xff\xff\xff\xfb", True),
        (b"l\x00\x00\x00\x00\x00\x00\x00\x01", True),
        (b"f\x3f\x00\x00\x00", False),  # 0.5, and the plugin cuts the fraction off
        (b"d\x40\x8f\x40\x00\x00\x00\x00\x00", True),  # 1000.0
        (b"D\x00\x00\x00\x00\x05", True),
        (b"V", False),
        (b"t\x01", False),
        (b"T\x00\x00\x00\x00\x00\x00\x00\x01", False),
        (b"?\x01", False),
    ],
)
def test_delay_is_read_as_the_plugin_reads_it(value: bytes, later: bool) -> None:
    table = b"\x07x-delay" + value
    payload = b"\x00\x3c\x00\x00" + bytes(8) + b"\x20\x00" + len(table).to_bytes(4, "big") + table
    assert asks_for_delay(b"\x02\x00\x01" + len(payload).to_bytes(4, "big") + payload + b"\xce") is later


def test_declare_of_the_plugins_type_becomes_passive() -> None:
    begun = requests()
    sent = [declare("orders", "x-delayed-message"), declare("orders", "topic"), declare("", "x-delayed-message")]
    passed = begun.feed(b"".join(sent))
    assert passed == b"".join(
        [
            declare("orders", "x-delayed-message", passive=True),
            sent[1],
            declare("", "x-delayed-message", passive=True),
        ]
    )
    assert begun.made_passive == 2


ONE = st.one_of(
    st.builds(
        publish,
        st.sampled_from(["orders", "delay.in.orders", ""]),
        st.sampled_from([None, {}, {"x-delay": 9}, {"x-delay": -9}, {"x-delay": "9", "more": ["x-delay"]}]),
        st.integers(1, 3),
        st.sampled_from([b"", b"body", b"x-delay", LONG_BODY]),
    ),
    st.builds(lambda *given: [declare("orders", *given)], st.sampled_from(["x-delayed-message", "topic"]), st.just(2)),
    st.just([frame.marshal(heartbeat.Heartbeat(), 0)]),
    st.just([frame.marshal(Channel.Open(), 5)]),
)


@given(st.data(), st.lists(ONE, max_size=6))
def test_pieces_and_interleaved_channels_change_nothing(data: st.DataObject, conversation: list[list[bytes]]) -> None:
    frames = list(interleaved(data, conversation))
    whole = b"".join(frames)
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=12))
    begun = Requests(INGRESSES.of)
    places = sorted({0, len(whole), *cuts})
    passed = begun.feed(GREETING[:3]) + begun.feed(GREETING[3:])
    passed += b"".join(begun.feed(whole[start:end]) for start, end in pairwise(places))
    assert passed.startswith(GREETING)
    assert by_channel(split(passed[len(GREETING) :])) == by_channel(expected(frames))
    assert begun.held_bytes == 0
    assert begun.is_whole


def interleaved(data: st.DataObject, conversation: list[list[bytes]]) -> Iterator[bytes]:
    """Mixes the frames of different channels, and keeps the order of each channel's."""
    channels: dict[int, list[bytes]] = {}
    for frames in conversation:
        for one in frames:
            channels.setdefault(int.from_bytes(one[1:3], "big"), []).append(one)
    while channels:
        channel = data.draw(st.sampled_from(sorted(channels)))
        yield channels[channel].pop(0)
        if not channels[channel]:
            del channels[channel]


def expected(frames: Sequence[bytes]) -> Iterator[bytes]:
    """What the door should make of these frames, by the library's objects."""
    publishes: dict[int, Basic.Publish] = {}
    for one in frames:
        _, channel, found = frame.unmarshal(one)
        if isinstance(found, Basic.Publish):
            publishes[channel] = found
            continue
        if isinstance(found, header.ContentHeader):
            method = publishes.pop(channel)
            delay = (found.properties.headers or {}).get("x-delay", 0)
            if method.exchange == "orders" and isinstance(delay, int | str) and int(delay) > 0:
                method.exchange = "delay.in.orders"
            yield frame.marshal(method, channel)
        if isinstance(found, Exchange.Declare) and found.exchange_type == "x-delayed-message":
            found.passive = True
            yield frame.marshal(found, channel)
            continue
        yield one


def split(data: bytes) -> Iterator[bytes]:
    while data:
        size = 8 + int.from_bytes(data[3:7], "big")
        yield data[:size]
        data = data[size:]


def by_channel(frames: Iterable[bytes]) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    for one in frames:
        found.setdefault(one[1:3], []).append(one)
    return found


def test_body_passes_as_it_comes() -> None:
    begun = requests()
    frames = publish("orders", {"x-delay": 1}, content=b"1234")
    begin, end = frames[2][:-2], frames[2][-2:]
    assert begun.feed(frames[0]) == b""
    assert begun.feed(frames[1] + begin) == frames_of_ingress()[0] + frames[1] + begin
    assert not begun.is_whole
    assert begun.feed(end) == end
    assert begun.is_whole


def frames_of_ingress() -> list[bytes]:
    return publish("delay.in.orders", {"x-delay": 1}, content=b"1234")


BEGUN_PUBLISH = publish("orders", None)[0]


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"\x07\x00\x01\x00\x00\x00\x04abcd\xce", "no such frame"),
        (b"\x01\x00\x01\x00\x00\x00\x01a\xce", "no such frame"),
        (b"\x01\x00\x01\x00\x00\x00\x04abcdX", "octet 206"),
        (b"\x02\x00\x01\xff\xff\xff\xff", f"the limit is {LARGEST_HELD}"),
        (b"\x01\x00\x01\x00\x02\x00\x01", f"the limit is {LARGEST_HELD}"),
        (BEGUN_PUBLISH + frame.marshal(Channel.Open(), 1), "the header of a publish must come"),
        (BEGUN_PUBLISH + BEGUN_PUBLISH, "the header of a publish must come"),
        (published_to(b"e" * 247, BEGUN_PUBLISH) + publish("", {"x-delay": 1})[1], "AMQP allows 255"),
        (b"".join(publish("orders", None, channel)[0] for channel in range(MOST_HELD + 1)), "no more may wait"),
    ],
)
def test_frame_that_can_not_be_held_is_refused(sent: bytes, reason: str) -> None:
    with pytest.raises(BadFrame, match=reason):
        requests().feed(sent)


@pytest.mark.parametrize("greeting", [b"GET / HTTP/1.1", b"AMQP\x03\x01\x00\x00", b"\x16\x03\x01\x02\x00\x01\x00\x01"])
def test_other_protocol_is_refused(greeting: bytes) -> None:
    with pytest.raises(BadFrame, match="not AMQP 0-9-1"):
        Requests(INGRESSES.of).feed(greeting)


def test_what_is_held_has_a_bound() -> None:
    begun = requests()
    for channel in range(MOST_HELD):
        begun.feed(published_to(b"e" * 255, frame.marshal(Basic.Publish(routing_key="k" * 255), channel + 1)))
    begun.feed(b"\x02\x00\x01" + (LARGEST_HELD - 8).to_bytes(4, "big") + b"x" * (LARGEST_HELD - 9))
    assert begun.held_bytes < LARGEST_HELD + MOST_HELD * 530
