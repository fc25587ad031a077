"""Signs callbacks by the specification Standard Webhooks (https://www.standardwebhooks.com). Pure.

webhook-id          the same for every attempt at a message
webhook-timestamp   when this attempt was made, in Unix seconds
webhook-signature   `v1,` and the HMAC-SHA256 of `<id>.<timestamp>.<body>` in base64, once for each secret
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Sequence
from hashlib import sha256
from hmac import digest
from typing import Final

_GROUP = "[A-Za-z0-9+/]"
_TAIL = f"({_GROUP}{{2}}==|{_GROUP}{{3}}=|{_GROUP}{{4}})?"
SECRET_PATTERN: Final = f"^whsec_(({_GROUP}{{4}}){{8,20}}{_TAIL}|({_GROUP}{{4}}){{21}}{_GROUP}{{2}}==)$"
SECRET_FORM: Final = "must be whsec_ and 24 to 64 bytes in base64, with padding"
_SECRET = re.compile(SECRET_PATTERN[:-1] + r"\Z")


def key_of(secret: str) -> bytes:
    """Returns the key that a secret holds.

    Raises:
        ValueError: the secret does not have the form in `SECRET_FORM`. The error's text does not show the secret.
    """
    if not _SECRET.match(secret):
        raise ValueError(SECRET_FORM)
    return b64decode(secret.removeprefix("whsec_"))


def webhook_id(topic: str, message_id: str, created_ms: int) -> str:
    """Returns a message's `webhook-id`. It depends on topic, id and creation time: two topics can have one message id,
    and the id of an ended message can be used again. It has no dot, because dots separate the parts that are signed."""
    return "msg_" + sha256(f"{topic}\n{message_id}\n{created_ms}".encode()).hexdigest()[:32]


def signatures(keys: Sequence[bytes], identity: str, timestamp_s: int, body: bytes) -> str:
    """Returns the value of `webhook-signature`: one signature for each key. `identity`: the `webhook-id`.
    `timestamp_s`: the `webhook-timestamp`, in Unix seconds."""
    signed = b"%b.%d.%b" % (identity.encode(), timestamp_s, body)
    return " ".join(f"v1,{b64encode(digest(key, signed, 'sha256')).decode()}" for key in keys)
