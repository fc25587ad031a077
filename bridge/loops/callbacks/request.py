"""Builds the headers of the request that delivers a message to a receiver. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

import orjson

from bridge.model.addresses import Url
from bridge.model.header_values import as_text
from bridge.model.message import Message
from bridge.model.webhooks import signatures, webhook_id
from bridge.tracing.context import PARENT, STATE

_BYTES_TYPE: Final = "application/octet-stream"
_FIELD_VALUE = re.compile(r"[!-~]([ -~\t]*[!-~])?")
_VISIBLE: Final = "!#$&'()*+,-./:;<=>?@[]^_`{|}~"  # in an id: all visible ASCII but ", % and \


@dataclass(frozen=True, kw_only=True, slots=True)
class Destination:
    """A receiver. `keys`: each key signs the requests to it; without keys they have no signature."""

    url: Url
    keys: Sequence[bytes]


def headers_of(message: Message, destination: Destination, timestamp_s: int) -> list[tuple[str, str]]:
    """Returns the headers of the request that delivers a message. The request's body is the message's body, unchanged.
    `timestamp_s`: the moment of the request, in Unix seconds.

    The message's headers go into `x-delay-headers`, as one JSON object in ASCII: HTTP can't carry every name and value
    as a header. The message's trace headers are also headers of the request, because HTTP servers look for them there.
    """
    record, envelope = message.record, message.envelope
    assert envelope is not None
    body = envelope.body or b""
    identity = webhook_id(record.topic, record.id, record.created_ms)
    content_type = envelope.content_type if _FIELD_VALUE.fullmatch(envelope.content_type) else _BYTES_TYPE
    headers = [
        ("Host", destination.url.authority),
        ("User-Agent", "delaybridge"),
        ("Accept", "*/*"),
        ("Content-Type", content_type),
        ("Content-Length", str(len(body))),
        ("webhook-id", identity),
        ("webhook-timestamp", str(timestamp_s)),
        ("x-delay-topic", record.topic),
        ("x-delay-id", quote(record.id, safe=_VISIBLE)),
        ("x-delay-attempt", str(record.attempts)),
        ("x-delay-due", str(record.due_ms)),
        ("x-delay-created", str(record.created_ms)),
    ]
    if destination.keys:
        headers.append(("webhook-signature", signatures(destination.keys, identity, timestamp_s, body)))
    if envelope.headers:
        headers += [
            (name, value)
            for name in (PARENT, STATE)
            if isinstance(value := envelope.headers.get(name), str) and _FIELD_VALUE.fullmatch(value)
        ]
        plain = orjson.loads(orjson.dumps(dict(envelope.headers), default=as_text))
        headers.append(("x-delay-headers", json.dumps(plain, separators=(",", ":"), sort_keys=True)))
    return headers
