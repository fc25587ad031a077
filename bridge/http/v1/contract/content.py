"""Converts a message's body between the JSON of the API and the bytes that an AMQP consumer gets.

A JSON value becomes compact JSON in UTF-8, with every digit of its numbers. A string with a text content type becomes
UTF-8. Base64 becomes the decoded bytes.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec
from msgspec import UNSET, Raw, UnsetType

from bridge.http import exact_json
from bridge.http.errors import TooLarge
from bridge.http.v1.contract.requests import ChangeRequest, TargetRequest
from bridge.model import media_types
from bridge.model.errors import InvalidRequest
from bridge.model.message import JSON_TYPE, Envelope, Target


class Content(Protocol):
    """The fields of a request that are the content of a message. A field that is not given is UNSET or None."""

    @property
    def body(self) -> Raw | UnsetType: ...

    @property
    def body_base64(self) -> bytes | None: ...

    @property
    def content_type(self) -> str | None: ...

    @property
    def headers(self) -> Mapping[str, Any] | None: ...


class NewContent(Content, Protocol):
    """The fields of a request that are the content of a new message. `to`: the message's target; None: its ready
    queue."""

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
    """Returns the content of a message after a change. `envelope`: the content before the change; None: unknown, so the
    defaults of `Envelope` apply.

    Raises:
        InvalidRequest: the body does not fit its content type.
        TooLarge: the body has more than `max_body_bytes`.
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
        assert request.body is not UNSET  # the request has one of both
        field, body = "body", _body_bytes(request.body, content_type)
    if len(body) > max_body_bytes:
        raise TooLarge(field=field, size_bytes=len(body), limit_bytes=max_body_bytes)
    return body


def shown_body(envelope: Envelope) -> tuple[Raw | UnsetType, str | UnsetType]:
    """Returns the members `body` and `body_base64` of an answer. One of them is UNSET, so the answer leaves it out.
    Only bytes that are neither JSON nor text are in `body_base64`. If the body was not kept, both are UNSET."""
    body, content_type = envelope.body, envelope.content_type
    if body is None:
        return UNSET, UNSET
    if media_types.is_json(content_type) and exact_json.is_json(body):
        return Raw(body), UNSET
    if media_types.is_utf8_text(content_type):
        try:
            return Raw(exact_json.dumps(body.decode())), UNSET
        except UnicodeDecodeError:
            pass
    return UNSET, base64.b64encode(body).decode()


def _body_bytes(body: Raw, content_type: str) -> bytes:
    if media_types.is_json(content_type):
        return exact_json.compact(body)
    if not media_types.is_utf8_text(content_type):
        message = "is neither JSON nor UTF-8 text: send the bytes as body_base64"
        raise InvalidRequest.of("content_type", content_type, "application/json, …+json, text/…", message)
    try:
        return msgspec.json.decode(body, type=str).encode()
    except msgspec.ValidationError:
        message = "must be a string, because the content type is text"
        raise InvalidRequest.of("body", Raw(exact_json.compact(body)), "a string", message) from None
