"""Tests that the check by hand agrees with the model, or leaves the message to it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge.http import exact_json
from bridge.http.fields import parse
from bridge.http.v1.contract.content import envelope_of
from bridge.http.v1.contract.requests import SendRequest
from bridge.http.v1.sending.plain import plain_draft
from bridge.model.errors import BridgeError
from bridge.model.message import Envelope
from bridge.model.values import MAX_DELAY_MS, Draft, IfExists

MAX_BODY = 40


def by_the_model(message: Any) -> Draft | None:
    try:
        request = parse(SendRequest, message)
        envelope = envelope_of(request, MAX_BODY)
    except BridgeError:
        return None
    return Draft(
        topic="orders",
        envelope=envelope,
        id=request.id,
        delay_ms=request.delay,
        deliver_at_ms=request.deliver_at,
        ttl_ms=request.ttl,
        max_retry=request.max_retry,
        if_exists=IfExists.SAME,
    )


numbers = (
    st.none()
    | st.booleans()
    | st.sampled_from(
        [0, 1, -1, 10_000, 10_001, MAX_DELAY_MS, MAX_DELAY_MS + 1, 5.0, 5.5, exact_json.WideInt(7), 2**70]
    )
    | st.sampled_from(["15m", "1500ms", "PT1H", "1000d", "999d", "", "5", "1m1m"])
)
bodies = st.sampled_from(
    [None, 0, "text", {"order": 1001}, [1.5, exact_json.loads(b"1e400")], "\ud800", "x" * 50, exact_json.WideInt(2**70)]
)
messages = st.fixed_dictionaries(
    {},
    optional={
        "body": bodies,
        "id": st.sampled_from([None, "o-1001", "", "a/b", "a b", 'a"b', "x" * 200, "x" * 201, "\n", 7]),
        "delay": numbers,
        "ttl": numbers,
        "max_retry": numbers,
        "deliver_at": st.sampled_from([None, 1_796_115_600_000]),
        "body_base64": st.sampled_from([None, "AAH/"]),
        "content_type": st.sampled_from([None, "text/plain", "application/json"]),
        "headers": st.sampled_from([None, {}, {"a": 1}]),
        "unknown": st.none(),
    },
)


@given(messages | bodies)
def test_a_message_checked_by_hand_is_read_as_the_model_reads_it(message: Any) -> None:
    draft = plain_draft("orders", message, MAX_BODY)

    if draft is not None:
        assert draft == by_the_model(message)


@pytest.mark.parametrize(
    ("message", "draft"),
    [
        ({"body": None}, {}),
        ({"body": {"order": 1001}, "delay": 900_000}, {"delay_ms": 900_000}),
        ({"body": [], "delay": "15m", "id": "o 1"}, {"delay_ms": 900_000, "id": "o 1"}),
        ({"body": 1, "delay": 0, "ttl": 1, "max_retry": 0, "id": None}, {"delay_ms": 0, "ttl_ms": 1, "max_retry": 0}),
    ],
)
def test_the_most_common_messages_are_checked_by_hand(message: dict[str, Any], draft: dict[str, Any]) -> None:
    envelope = Envelope(body=exact_json.dumps(message["body"]))

    assert plain_draft("orders", message, MAX_BODY) == Draft(
        topic="orders", envelope=envelope, if_exists=IfExists.SAME, **draft
    )
