"""Tests which messages get the trace context of the request that sends them."""

from __future__ import annotations

from typing import Any

import pytest

from bridge.http.trace_context import carried, given
from bridge.model.message import Envelope
from bridge.model.values import Draft

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
CONTEXT = {"traceparent": PARENT, "tracestate": "a=1"}


def draft(headers: dict[str, Any]) -> Draft:
    return Draft(topic="orders", envelope=Envelope(headers=headers, body=b"1"))


def raw(**headers: str) -> list[tuple[bytes, bytes]]:
    return [(b"host", b"h"), *((name.encode(), value.encode()) for name, value in headers.items())]


def test_request_without_traceparent_gives_nothing() -> None:
    assert given(raw()) is None
    assert given(raw(tracestate="a=1")) is None


def test_request_gives_its_headers_as_they_are() -> None:
    assert given(raw(**CONTEXT)) == CONTEXT
    assert given(raw(traceparent="what is this?")) == {"traceparent": "what is this?"}
    assert given([*raw(**CONTEXT), (b"tracestate", b"b=2")]) == {"traceparent": PARENT, "tracestate": "a=1,b=2"}


@pytest.mark.parametrize(("length", "taken"), [(512, True), (513, False)])
def test_longer_values_than_512_characters_are_left_out(length: int, taken: bool) -> None:
    value = "x" * length
    assert given(raw(traceparent=value)) == ({"traceparent": value} if taken else None)
    assert given(raw(traceparent=PARENT, tracestate=value)) == (
        {"traceparent": PARENT, "tracestate": value} if taken else {"traceparent": PARENT}
    )


@pytest.mark.parametrize("value", ["", "a\tb", "a\x7f", "ü"])
def test_values_that_no_header_of_a_message_should_have_are_left_out(value: str) -> None:
    assert given(raw(traceparent=value)) is None


def test_message_gets_the_context_beside_its_own_headers() -> None:
    assert carried(draft({"tenant": "t-7"}), CONTEXT).envelope == Envelope(
        headers={"tenant": "t-7", **CONTEXT}, body=b"1"
    )


@pytest.mark.parametrize("own", [{"traceparent": "mine"}, {"TraceParent": "mine"}, {"tracestate": "b=2"}])
def test_message_keeps_its_own_context(own: dict[str, str]) -> None:
    sent = draft(own)
    assert carried(sent, CONTEXT) is sent
