"""Finds the receiver of a message.

A subscription names one URL for its topic, or lets each message name its receiver. A message may name a URL, or one of
the services in the settings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bridge.loops.callbacks.request import Destination
from bridge.model.addresses import Url, parse_url
from bridge.model.message import Message
from bridge.model.webhooks import key_of
from bridge.service.topics.subscriptions import Subscription
from bridge.settings.task_services import TaskService

URL_HEADER: Final = "callback-url"
SERVICE_HEADER: Final = "callback-sn"


class NoDestination(Exception):
    """The message names no receiver, an unknown service, or a wrong URL."""


class Destinations:
    """Finds the receivers of messages. `services`: by name, the services in the settings, which messages may name."""

    def __init__(self, services: Mapping[str, TaskService]) -> None:
        self._services = services

    def of(self, subscription: Subscription, message: Message) -> Destination:
        """Returns the receiver of a message: the subscription's receiver, or the receiver that the message names.

        Raises:
            NoDestination: the message names no receiver, an unknown service, or a wrong URL.
        """
        if subscription.url is not None:
            keys = tuple(key_of(secret) for secret in subscription.secrets)
            return Destination(url=parse_url(subscription.url), keys=keys)
        headers = {} if message.envelope is None else message.envelope.headers
        return self.named(headers.get(URL_HEADER), headers.get(SERVICE_HEADER))

    def named(self, url: object, service: object) -> Destination:
        """Returns the receiver that a message names. Without `service`, `url` is a full URL. With `service`, `url` is a
        path, or a full URL with the origin of the service.

        The bridge signs the requests to a service that has a secret. It does not sign requests to a URL without a
        service.

        Raises:
            NoDestination: `url` is no URL, there is no such service, or the URL has another origin than the service.
        """
        if not isinstance(url, str):
            raise NoDestination("url: must be a string")
        if service is None:
            return Destination(url=_parsed(url), keys=())
        known = self._services.get(service) if isinstance(service, str) else None
        if known is None:
            raise NoDestination("sn: there is no such service")
        full_url = _parsed(known.url.origin + url if url.startswith("/") else url)
        if full_url.origin != known.url.origin:
            raise NoDestination("url: is not of the service that sn names")
        return Destination(url=full_url, keys=() if known.secret is None else (key_of(known.secret),))


def _parsed(url: str) -> Url:
    try:
        return parse_url(url)
    except ValueError as error:
        raise NoDestination(f"url: {error}") from None
