"""Tests what a delivery becomes when nobody can lease it."""

from __future__ import annotations

from typing import Any, cast

from bridge.broker.client.delivery import Delivery
from bridge.broker.copies.copies import from_properties
from bridge.broker.copies.properties import Properties
from bridge.broker.publications import Route
from bridge.broker.ready.taken import Taken
from bridge.service.pulling.leasing import give_back
from bridge.tracing.context import OF_RELEASE


def given_back(headers: dict[str, Any]) -> dict[str, Any]:
    """The headers of a delivery of a traced message, after it was given back."""
    properties = Properties(message_id="o-1", headers={"x-delay-copy": "3.1f", "traceparent": "sent", **headers})
    taken = Taken("ready.orders", Delivery(cast("Any", None), 1, "orders", properties, b"1"))
    publication = give_back(taken, from_properties("orders", properties, b"1", now_ms=0)).publication
    assert publication.route is Route.READY
    return dict(publication.copy.envelope.headers)


def test_delivery_that_is_given_back_is_still_the_delivery_of_its_release() -> None:
    assert given_back({OF_RELEASE: "released"}) == {"traceparent": "sent", OF_RELEASE: "released"}
    assert given_back({}) == {"traceparent": "sent"}
