"""Tests the verifier of callbacks against the library of Standard Webhooks, and against a bridge's own calls."""

from __future__ import annotations

import base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
import standardwebhooks

from bridge.model.webhooks import key_of, signatures
from delaybridge_client import InvalidArgument, RefusedCallback, Webhook

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZmdoaWprbG1ub3BxcnN0dXY="
OTHER = "whsec_QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY="
NOW = datetime(2026, 12, 1, 9, tzinfo=UTC)
BODY = b'{"order":1001}'


def _webhook(*secrets: str, now: datetime = NOW, tolerance: timedelta = timedelta(minutes=5)) -> Webhook:
    return Webhook(list(secrets) or SECRET, tolerance=tolerance, clock=now.timestamp)


def _headers(*secrets: str, at: datetime = NOW, body: bytes = BODY) -> dict[str, str]:
    """The headers of a callback, signed by the library of Standard Webhooks."""
    signed = (standardwebhooks.Webhook(secret).sign("msg_1", at, body.decode()) for secret in secrets or (SECRET,))
    return {
        "Webhook-Id": "msg_1",
        "Webhook-Timestamp": str(int(at.timestamp())),
        "Webhook-Signature": " ".join(signed),
        "Content-Type": "application/json",
        "X-Delay-Topic": "shop/orders",
        "X-Delay-Id": "o%201001",
        "X-Delay-Attempt": "2",
        "X-Delay-Due": "1796115600123",
        "X-Delay-Headers": '{"tenant":"t-7"}',
    }


def test_callback_is_verified_and_read() -> None:
    callback = _webhook().verify(BODY, _headers())
    assert (callback.webhook_id, callback.sent_at, callback.json) == ("msg_1", NOW, {"order": 1001})
    assert (callback.topic, callback.id, callback.attempt) == ("shop/orders", "o 1001", 2)
    assert callback.due_at == datetime(2026, 12, 1, 9, 0, 0, 123_000, tzinfo=UTC)
    assert (callback.content_type, callback.headers) == ("application/json", {"tenant": "t-7"})


@pytest.mark.parametrize(
    ("signed_by", "known", "right"),
    [
        ([SECRET], [SECRET], True),
        ([SECRET, OTHER], [OTHER], True),
        ([SECRET], [OTHER, SECRET], True),
        ([SECRET], [OTHER], False),
    ],
)
def test_old_and_new_secret_are_good_while_they_change(signed_by: list[str], known: list[str], right: bool) -> None:
    webhook, headers = _webhook(*known), _headers(*signed_by)
    if right:
        assert webhook.verify(BODY, headers).webhook_id == "msg_1"
    else:
        with pytest.raises(RefusedCallback, match="no signature is that of a secret"):
            webhook.verify(BODY, headers)


@pytest.mark.parametrize("away", [timedelta(minutes=5), timedelta(minutes=-5)])
def test_callback_within_the_tolerance_is_good(away: timedelta) -> None:
    assert _webhook(now=NOW + away).verify(BODY, _headers())


@pytest.mark.parametrize("away", [timedelta(minutes=5, seconds=1), timedelta(minutes=-5, seconds=-1)])
def test_callback_beyond_the_tolerance_is_refused(away: timedelta) -> None:
    with pytest.raises(RefusedCallback, match="the tolerance is 0:05:00"):
        _webhook(now=NOW + away).verify(BODY, _headers())


Change = Callable[[dict[str, str]], object]


@pytest.mark.parametrize(
    "change",
    [
        lambda headers: headers.pop("Webhook-Id"),
        lambda headers: headers.pop("Webhook-Timestamp"),
        lambda headers: headers.pop("Webhook-Signature"),
        lambda headers: headers.update({"Webhook-Id": "msg_2"}),
        lambda headers: headers.update({"Webhook-Timestamp": str(int(NOW.timestamp()) + 1)}),
        lambda headers: headers.update({"Webhook-Timestamp": "soon"}),
        lambda headers: headers.update({"Webhook-Timestamp": "1" * 30}),
        lambda headers: headers.update({"Webhook-Signature": "v1,"}),
        lambda headers: headers.update({"Webhook-Signature": "v1,ä"}),
        lambda headers: headers.update({"Webhook-Signature": headers["Webhook-Signature"].replace("v1,", "v1a,")}),
    ],
)
def test_changed_request_is_refused(change: Change) -> None:
    headers = _headers()
    change(headers)
    with pytest.raises(RefusedCallback):
        _webhook().verify(BODY, headers)


def test_changed_body_is_refused() -> None:
    with pytest.raises(RefusedCallback):
        _webhook().verify(BODY + b" ", _headers())


def test_signature_of_the_bridge_is_good() -> None:
    body = bytes(range(256))
    headers = {
        "webhook-id": "msg_1",
        "webhook-timestamp": str(int(NOW.timestamp())),
        "webhook-signature": signatures([key_of(SECRET)], "msg_1", int(NOW.timestamp()), body),
    }
    callback = _webhook().verify(body, headers)
    assert (callback.topic, callback.id, callback.attempt, callback.due_at) == (None, None, None, None)


@pytest.mark.parametrize("secrets", [[], "whsec_no base64!", ["whsec_ÄÖ"]])
def test_secret_that_is_none_is_refused_at_once(secrets: list[str] | str) -> None:
    with pytest.raises(InvalidArgument, match="secret"):
        Webhook(secrets)


def test_error_does_not_show_a_secret() -> None:
    hidden = base64.b64encode(b"x" * 32).decode() + "!"
    with pytest.raises(InvalidArgument) as raised:
        Webhook(f"whsec_{hidden}")
    assert hidden not in str(raised.value)
