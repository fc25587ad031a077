"""Converts a message's body between the JSON of the API and the bytes that an AMQP consumer gets.

A JSON value becomes compact JSON in UTF-8, with every digit of its numbers. A string with a text content type becomes
UTF-8. Base64 becomes the decoded bytes.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any, Protocol

import orjson

from bridge.http import exact_json
from bridge.http.errors import TooLarge
from bridge.http.v1.contract.requests import ChangeRequest, TargetRequest
from bridge.model.errors import InvalidRequest
from bridge.model.message import JSON_TYPE, Envelope, Target

_JSON = re.compile(r"application/json|[^/;]+/[^;]+\+json", re.IGNORECASE)
_TEXT = re.compile(r"text/[^;]+", re.IGNORECASE)
_CHARSET = re.compile(r';\s*charset\s*=\s*"?([^\s;"]+)', re.IGNORECASE)
_UTF8 = ("utf-8", "us-ascii")


class Content(Protocol):
    """The fields of a request that are the content of a message."""

    @property
    def body(self) -> Any: ...

    @property
    def body_base64(self) -> bytes | None: ...

    @property
    def content_type(self) -> str | None: ...

    @property
    def headers(self) -> Mapping[str, Any] | None: ...


class NewContent(Content, Protocol):
    """The fields of a request that are the content of a new message."""

    @property
    def to(self) -> TargetRequest | None: ...


def envelope_of(request: NewContent, max_body_bytes: int) -> Envelope:
    """Returns the content of the message that a request asks to send.

    Raises:
        InvalidRequest: the body does not fit its content type.
        TooLarge: the body has more than `max_body_bytes`.
    """
    content_type = request.content_type or JSON_TYPE
    body = _body_of(request, content_type, max_body_bytes)
    target = None if request.to is None else Target(request.to.exchange, request.to.routing_key)
    return Envelope(content_type=content_type, headers=request.headers or {}, body=body, target=target)


def changed_envelope(request: ChangeRequest, envelope: Envelope | None, max_body_bytes: int) -> Envelope:
    """Returns the content of a message after a change. `envelope`: the content before the change; None: it is unknown,
    so the defaults count.

    Raises:
        InvalidRequest, TooLarge: as `envelope_of`.
    """
    before = envelope or Envelope()
    content_type = request.content_type or before.content_type
    body = _body_of(request, content_type, max_body_bytes) if request.has_body else before.body
    headers = before.headers if request.headers is None else request.headers
    return Envelope(
        content_type=content_type, headers=headers, properties=before.properties, body=body, target=before.target
    )


def _body_of(request: Content, content_type: str, max_body_bytes: int) -> bytes:
    if request.body_base64 is not None:
        field, body = "body_base64", request.body_base64
    else:
        field, body = "body", _body_bytes(request.body, content_type)
    if len(body) > max_body_bytes:
        raise TooLarge(field=field, size_bytes=len(body), limit_bytes=max_body_bytes)
    return body


def body_json(envelope: Envelope | None) -> dict[str, Any]:
    """Returns `{"body": …}`, or `{"body_base64": …}` for bytes that are neither JSON nor text, or `{}` if the body was
    not kept."""
    if envelope is None or envelope.body is None:
        return {}
    body, content_type = envelope.body, envelope.content_type
    if _is_json(content_type) and exact_json.is_json(body):
        return {"body": orjson.Fragment(body)}
    if _is_utf8_text(content_type):
        try:
            return {"body": body.decode()}
        except UnicodeDecodeError:
            pass
    return {"body_base64": base64.b64encode(body).decode()}


def _body_bytes(body: Any, content_type: str) -> bytes:
    try:
        if _is_json(content_type):
            return exact_json.dumps(body)
        if _is_utf8_text(content_type):
            return _text_bytes(body)
    except (TypeError, UnicodeEncodeError):
        limit = "250 levels, whole characters"
        message = "nests more than 250 levels deep, or has half of a surrogate pair: send it as body_base64"
        raise InvalidRequest.of("body", body, limit, message) from None
    message = "is neither JSON nor UTF-8 text: send the bytes as body_base64"
    raise InvalidRequest.of("content_type", content_type, "application/json, …+json, text/…", message)


def _text_bytes(body: Any) -> bytes:
    if not isinstance(body, str):
        raise InvalidRequest.of("body", body, "a string", "must be a string, because the content type is text")
    return body.encode()


def _is_json(content_type: str) -> bool:
    # The first comparison settles almost all calls, and costs less than the match. An AMQP client that gives no content
    # type mostly sends JSON.
    return content_type in (JSON_TYPE, "") or _JSON.match(content_type) is not None


def _is_utf8_text(content_type: str) -> bool:
    charset = _CHARSET.search(content_type)
    return _TEXT.match(content_type) is not None and (charset is None or charset[1].lower() in _UTF8)
