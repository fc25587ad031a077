"""Publishes copies, and traces releases: the span of a release lasts until the confirm.

A released copy has the span's context in a header, for the consumer that takes the copy. The sender's headers stay as
they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from bridge.broker.client.publisher import Publisher
from bridge.broker.copy_publisher import CopyPublisher
from bridge.broker.declared.declared import Declared
from bridge.broker.declared.topic_queues import Existing
from bridge.broker.publications import Publication, Route
from bridge.broker.target_publisher import TargetPublisher
from bridge.model.errors import BrokerUnavailable
from bridge.model.message import Copy
from bridge.tracing.context import OF_RELEASE
from topology.names import Names

if TYPE_CHECKING:
    from bridge.tracing.deliveries import Deliveries, DeliverySpan


class TracedCopyPublisher(CopyPublisher):
    def __init__(
        self,
        declared: Declared,
        names: Names,
        publisher: Publisher,
        targets: TargetPublisher,
        existing: Existing,
        *,
        bundles: bool,
        tracing: Deliveries,
    ) -> None:
        super().__init__(declared, names, publisher, targets, existing, bundles=bundles)
        self._exchange = names.ready_exchange
        self._tracing = tracing

    async def publish(self, publications: Sequence[Publication]) -> list[BrokerUnavailable | None]:
        spans = [self._begun(publication) for publication in publications]
        errors = await super().publish(
            [
                publication if span is None else _with_span(publication, span)
                for publication, span in zip(publications, spans, strict=True)
            ]
        )
        for span, error in zip(spans, errors, strict=True):
            if span is not None and error is not None:
                span.fail(type(error).__name__, str(error))
                span.end()
        return errors

    def _begun(self, publication: Publication) -> DeliverySpan | None:
        copy = publication.copy
        # A copy that was taken and put back has been released before.
        if publication.route not in (Route.READY, Route.TARGET) or OF_RELEASE in copy.envelope.headers:
            return None
        target = copy.envelope.target
        return self._tracing.released(copy, self._exchange if target is None else target.exchange)


def _with_span(publication: Publication, span: DeliverySpan) -> Publication:
    """Returns the publication with the context of `span` in the headers of its copy. `span` ends at the publisher
    confirm, even if the confirm does not count yet (`declared/young_queues.py`)."""
    copy = _with_context(publication.copy, span)
    return replace(publication, copy=copy, arrived=partial(_arrived, span, publication.arrived))


def _arrived(span: DeliverySpan, arrived: Callable[[], None] | None) -> None:
    span.end()
    if arrived is not None:
        arrived()


def _with_context(copy: Copy, span: DeliverySpan) -> Copy:
    headers = {**copy.envelope.headers, OF_RELEASE: span.context}
    return replace(copy, envelope=replace(copy.envelope, headers=headers))
