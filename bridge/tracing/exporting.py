"""Sets up OpenTelemetry's SDK, which sends spans to a collector. The SDK's own environment variables (`OTEL_…`)
configure it."""

from __future__ import annotations

from importlib.metadata import version
from uuid import uuid4

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import (
    SERVICE_INSTANCE_ID,
    SERVICE_NAME,
    SERVICE_VERSION,
    OTELResourceDetector,
    Resource,
)
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.semconv.schemas import Schemas

from bridge.tracing.deliveries import Deliveries


def deliveries(process: str) -> Deliveries:
    """Starts the export of spans, and returns the object that makes the spans. Call this function in the process that
    makes the spans: a thread sends them, and a fork does not keep the thread.

    `process`: the name of this worker process; empty if it is the only one.
    """
    # No handler at the exit: `Deliveries.close` waits for less time.
    provider = TracerProvider(resource=resource_of(process), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    tracer = provider.get_tracer("delaybridge", version("delaybridge"), schema_url=Schemas.V1_41_0.value)
    return Deliveries(provider, tracer)


def resource_of(process: str) -> Resource:
    """Returns the OpenTelemetry resource, which describes this process to the collector. Environment variables
    (`OTEL_…`) override the service name and the instance id, which is random otherwise. `process`: the name of this
    worker process; empty if it is the only one. If a variable gives the instance id, `process` is added to that id."""
    given = OTELResourceDetector().detect()
    instance = str(given.attributes.get(SERVICE_INSTANCE_ID, uuid4()))
    if process and SERVICE_INSTANCE_ID in given.attributes:
        instance += f"/{process}"
    known = Resource({SERVICE_NAME: "delaybridge", SERVICE_VERSION: version("delaybridge")})
    return Resource.create().merge(known).merge(given).merge(Resource({SERVICE_INSTANCE_ID: instance}))
