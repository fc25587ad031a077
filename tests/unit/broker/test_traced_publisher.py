"""Tests which publications have a span, and what it says of a release that fails."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
import pytest_asyncio
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from bridge.broker.broker import Broker
from bridge.broker.publications import Publication, Route
from bridge.local.ports import free_ports
from bridge.model.errors import NotPublished
from bridge.model.message import Copy, Envelope
from bridge.settings.settings import Settings
from bridge.tracing.context import OF_RELEASE
from bridge.tracing.deliveries import Deliveries

TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
COPY = Copy(
    topic="orders", id="o-1", epoch=1, nonce=10, attempt=2, max_retry=3, due_ms=1_769_850_000_123, expires_ms=0,
    created_ms=1_769_850_000_000, envelope=Envelope(headers=TRACE, body=b"1"),
)  # fmt: skip


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest_asyncio.fixture
async def broker(exporter: InMemorySpanExporter) -> AsyncIterator[Broker]:
    """A broker that is away, and whose releases are traced."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))

    async def listed(topics: object) -> list[str]:
        raise AssertionError(topics)

    settings = Settings(amqp_url=f"amqp://guest:guest@127.0.0.1:{free_ports(1)[0]}")
    broker = Broker(settings, listed, Deliveries(provider, provider.get_tracer("test")))
    yield broker
    await broker.close()


async def spans_of(broker: Broker, exporter: InMemorySpanExporter, publication: Publication) -> list[ReadableSpan]:
    (error,) = await broker.copy_publisher.publish([publication])
    assert isinstance(error, NotPublished)
    return list(exporter.get_finished_spans())


async def test_release_that_fails_has_the_error_in_its_span(broker: Broker, exporter: InMemorySpanExporter) -> None:
    (span,) = await spans_of(broker, exporter, Publication(copy=COPY, route=Route.READY))
    assert span.attributes is not None
    assert (span.status.status_code, span.attributes["error.type"]) == (StatusCode.ERROR, "NotPublished")
    assert "127.0.0.1" in (span.status.description or "")
    assert (span.name, span.attributes["delaybridge.attempt"]) == ("release delay.ready:orders", 2)
    assert dict(COPY.envelope.headers) == TRACE  # a later try releases the same copy


async def test_copies_on_another_way_have_no_span(broker: Broker, exporter: InMemorySpanExporter) -> None:
    given_back = replace(COPY, envelope=Envelope(headers={**TRACE, OF_RELEASE: TRACE["traceparent"]}))
    for publication in (
        Publication(copy=COPY, route=Route.WHEEL, left_ms=1_000),
        Publication(copy=COPY, route=Route.DEAD, reason="retries used up"),
        Publication(copy=given_back, route=Route.READY),
    ):
        assert await spans_of(broker, exporter, publication) == []
