"""Tests which receiver a message goes to: its topic's, one that it names, or a service of the settings."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from typing import Any

import pytest

from bridge.loops.callbacks.destinations import (
    SERVICE_HEADER,
    URL_HEADER,
    Destinations,
    NoDestination,
)
from bridge.model.addresses import parse_url
from bridge.model.message import Envelope
from bridge.model.webhooks import key_of
from bridge.service.topics.subscriptions import Subscription
from bridge.settings.task_services import parse_task_services
from tests.wires.camellia_service import message

SECRET = "whsec_" + base64.b64encode(bytes(24)).decode()
SERVICES = parse_task_services(
    json.dumps(
        {"shop": {"url": "https://shop.example/ignored", "secret": SECRET}, "open": {"url": "https://o.example"}}
    )
)
NAMED_BY_MESSAGE = Subscription(topic="orders", url=None)


def destination_of(**headers: Any) -> tuple[str, int]:
    """Returns the URL and the number of keys."""
    destination = Destinations(SERVICES).of(NAMED_BY_MESSAGE, message(envelope=Envelope(headers=headers, body=b"{}")))
    return str(destination.url), len(destination.keys)


def test_a_message_cannot_override_its_topics_receiver() -> None:
    subscription = replace(NAMED_BY_MESSAGE, url="https://hooks.example/x", secrets=(SECRET, SECRET))
    envelope = Envelope(headers={URL_HEADER: "https://evil.example/"}, body=b"{}")
    destination = Destinations(SERVICES).of(subscription, message(envelope=envelope))
    assert (destination.url, destination.keys) == (parse_url("https://hooks.example/x"), (key_of(SECRET),) * 2)


@pytest.mark.parametrize(
    ("url", "service", "destination"),
    [
        ("https://hooks.example/x", None, ("https://hooks.example/x", 0)),
        ("/x?y=z", "shop", ("https://shop.example/x?y=z", 1)),
        ("https://shop.example/x", "shop", ("https://shop.example/x", 1)),
        ("https://SHOP.example:443/x", "shop", ("https://shop.example/x", 1)),
        ("/", "open", ("https://o.example/", 0)),
    ],
)
def test_a_message_may_name_a_url_or_a_path_of_a_service(
    url: str, service: str | None, destination: tuple[str, int]
) -> None:
    assert destination_of(**{URL_HEADER: url, SERVICE_HEADER: service}) == destination


@pytest.mark.parametrize(
    ("url", "service"),
    [
        (None, None),
        (5, None),
        ("/x", None),
        ("", "shop"),
        ("x", "shop"),
        ("/x", "none"),
        ("/x", 5),
        ("/x y", "shop"),
        ("http://shop.example/x", "shop"),
        ("https://shop.example:444/x", "shop"),
        ("https://shop.example.evil.example/x", "shop"),
        (".evil.example/", "shop"),
    ],
)
def test_an_unknown_or_foreign_destination_is_refused(url: object, service: object) -> None:
    with pytest.raises(NoDestination):
        destination_of(**{URL_HEADER: url, SERVICE_HEADER: service})


@pytest.mark.parametrize(
    "given",
    ["", "{", "[]", '{"a": 1}', '{"a": {}}', '{"a": {"url": "ftp://x/"}}', '{"a": {"url": "https://x/", "key": 1}}',
     '{"a": {"url": "https://x/", "secret": "whsec_confidential"}}', '{"a": {"url": "https://x/", "secret": 5}}'],
)  # fmt: skip
def test_an_error_about_services_contains_no_secret(given: str) -> None:
    with pytest.raises(ValueError) as refused:
        parse_task_services(given)
    assert "confidential" not in str(refused.value)
