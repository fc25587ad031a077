"""Verifies the callbacks of a bridge, which it signs by the specification Standard Webhooks. Pure, apart from the
clock."""

from __future__ import annotations

import base64
import binascii
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hmac import compare_digest, digest
from typing import Any, Final
from urllib.parse import unquote

from delaybridge_client.errors import DelaybridgeError, InvalidArgument

_PREFIX: Final = "whsec_"
_VERSION: Final = "v1,"
_MS: Final = timedelta(milliseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class RefusedCallback(DelaybridgeError):
    """The request is no callback of this bridge, or is too old. Answer the request with 400, and do nothing else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Callback:
    """A verified callback.

    `webhook_id` is the same for each attempt at one message: a receiver recognises repetitions by it. `sent_at` is the
    moment of this attempt. `headers` are the message's own headers. A field is None if the request lacks its header.
    """

    webhook_id: str
    sent_at: datetime
    body: bytes
    content_type: str
    topic: str | None
    id: str | None
    attempt: int | None
    due_at: datetime | None
    headers: Mapping[str, Any]

    @property
    def json(self) -> Any:
        """The body of the callback, parsed as JSON."""
        return json.loads(self.body)


class Webhook:
    """Verifies callbacks with the secrets of a subscription: one secret, or several during a change of secrets.

    `tolerance`: how far the moment of a request may be from now. `clock`: returns the time in Unix seconds.
    """

    def __init__(
        self,
        secrets: str | Sequence[str],
        *,
        tolerance: timedelta = timedelta(minutes=5),
        clock: Callable[[], float] = time.time,
    ) -> None:
        given = [secrets] if isinstance(secrets, str) else list(secrets)
        if not given:
            raise InvalidArgument("secrets: give at least one secret")
        self._keys = [_key(secret) for secret in given]
        self._tolerance = tolerance
        self._clock = clock

    def verify(self, body: bytes, headers: Mapping[str, str]) -> Callback:
        """Verifies a request. `body`: the bytes of its body, exactly as they came.

        Raises:
            RefusedCallback: a header is missing, no signature is right, or the request is too old or too new.
        """
        lower = {name.lower(): value for name, value in headers.items()}
        webhook_id, timestamp = _required(lower, "webhook-id"), _required(lower, "webhook-timestamp")
        signatures = _required(lower, "webhook-signature").split(" ")
        sent_s = self._recent(timestamp)
        content = b"%b.%b.%b" % (webhook_id.encode(), timestamp.encode(), body)
        expected = [_VERSION + base64.b64encode(digest(key, content, "sha256")).decode() for key in self._keys]
        # Every pair is compared, so that the time does not show which signature is right.
        matches = [compare_digest(one.encode(), given.encode()) for one in expected for given in signatures]
        if not any(matches):
            raise RefusedCallback("webhook-signature: no signature is that of a secret")
        return Callback(
            webhook_id=webhook_id,
            sent_at=_EPOCH + timedelta(seconds=sent_s),
            body=body,
            content_type=lower.get("content-type", ""),
            topic=lower.get("x-delay-topic"),
            id=_unquoted(lower.get("x-delay-id")),
            attempt=_number(lower.get("x-delay-attempt")),
            due_at=_moment(lower.get("x-delay-due")),
            headers=_own_headers(lower.get("x-delay-headers")),
        )

    def _recent(self, timestamp: str) -> int:
        """Returns the timestamp in Unix seconds.

        Raises:
            RefusedCallback: the timestamp is malformed or too far from now.
        """
        seconds = _number(timestamp)
        if seconds is None:
            raise RefusedCallback(f"webhook-timestamp: {timestamp[:40]!r} is no number of seconds")
        away_s = seconds - self._clock()
        if abs(away_s) > self._tolerance.total_seconds():
            when = f"{abs(away_s):.0f} s {'ahead' if away_s > 0 else 'old'}"
            raise RefusedCallback(f"webhook-timestamp: {when}, and the tolerance is {self._tolerance}")
        return seconds


def _key(secret: str) -> bytes:
    try:
        return base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidArgument("secrets: a secret is whsec_ and base64, as the subscription has it") from None


def _required(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(name)
    if not value:
        raise RefusedCallback(f"{name}: the header is missing")
    return value


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 20 else None


def _moment(text: str | None) -> datetime | None:
    unix_ms = _number(text)
    try:
        return None if unix_ms is None else _EPOCH + unix_ms * _MS
    except OverflowError:
        return None


def _unquoted(text: str | None) -> str | None:
    return None if text is None else unquote(text)


def _own_headers(text: str | None) -> dict[str, Any]:
    try:
        own = json.loads(text or "{}")
    except ValueError:
        return {}
    return own if isinstance(own, dict) else {}
