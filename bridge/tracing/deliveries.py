"""Makes the spans of deliveries, by OpenTelemetry's conventions for messaging.

A delivery is a trace. Its first span has a link to the span that sent the message, and no parent: a message may wait
for months, and no trace should. Further spans of the delivery are children of the first, so a delivery has one link.

    release   the checkpoint publishes the copy into its ready queue
    pull      a pull over HTTP, or a callback, takes the copy; the first span if no bridge has released the copy
    callback  the bridge calls the receiver

A delivery is not traced if the message has no trace context of its sender, or one that is not sampled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Thread
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Link, NonRecordingSpan, SpanContext, SpanKind, Status, StatusCode, TraceFlags
from opentelemetry.util.types import AttributeValue

from bridge.model.message import Copy, Message
from bridge.tracing import context
from bridge.tracing.context import TraceContext

_FLUSH_S: Final = 3.0
"""How many seconds a process waits for the collector at its end."""


@dataclass(frozen=True, slots=True)
class _Operation:
    """An operation that has a span. `name` is our own; `type` and `kind` are values of OpenTelemetry's conventions."""

    name: str
    type: str
    kind: SpanKind


# Later spans of the delivery are children of the release's span, so its kind is PRODUCER.
_RELEASE: Final = _Operation("release", "send", SpanKind.PRODUCER)
_PULL: Final = _Operation("pull", "receive", SpanKind.CLIENT)
_CALLBACK: Final = _Operation("callback", "process", SpanKind.CONSUMER)


class DeliverySpan:
    """A span that has begun. `context`: the span's trace context, in the form of `traceparent`. Later spans of the
    delivery get it as `within`."""

    __slots__ = ("_span", "context")

    def __init__(self, span: trace.Span) -> None:
        self._span = span
        own = span.get_span_context()
        self.context = str(TraceContext(own.trace_id, own.span_id, own.trace_flags.sampled))

    def note(self, attribute: str, value: AttributeValue) -> None:
        self._span.set_attribute(attribute, value)

    def fail(self, error_type: str, reason: str) -> None:
        """Marks the span as failed. `error_type`: a class of errors or a status. `reason`: the error's text."""
        self._span.set_attribute("error.type", error_type)
        self._span.set_status(Status(StatusCode.ERROR, reason))

    def end(self) -> None:
        self._span.end()


class Deliveries:
    """Begins the spans of deliveries, and sends ended spans to the collector."""

    def __init__(self, provider: TracerProvider, tracer: trace.Tracer) -> None:
        self._provider = provider
        self._tracer = tracer

    def released(self, copy: Copy, exchange: str) -> DeliverySpan | None:
        """Begins the span of a release, and returns it. Returns None if the copy has no sampled trace context of its
        sender. The caller ends the span at the publisher confirm.

        `exchange`: where the copy is published.
        """
        origin = _origin(copy.envelope.headers)
        if origin is None:
            return None
        facts = _facts(copy.topic, copy.id, copy.attempt, copy.due_ms)
        facts["messaging.rabbitmq.destination.routing_key"] = copy.topic
        return self._begun(_RELEASE, f"{exchange}:{copy.topic}", facts, origin)

    def pulled(self, message: Message, queue: str, *, within: str, since_ns: int) -> DeliverySpan | None:
        """Begins the span of a pull, and returns it. Returns None if the delivery is not traced. The caller ends the
        span when the message is leased.

        `queue`: the queue that the message was taken from. `within`: the trace context of the delivery's earlier span,
        empty if there is none. `since_ns`: when the leasing began, in Unix ns.
        """
        return self._of_message(_PULL, message, queue, within, since_ns)

    def called(self, message: Message, queue: str, *, within: str) -> DeliverySpan | None:
        """Begins the span of a callback, and returns it. Returns None if the delivery is not traced. The caller ends
        the span at the receiver's answer.

        `queue`: the queue that the message was taken from. `within`: the trace context of the delivery's earlier span,
        empty if there is none.
        """
        return self._of_message(_CALLBACK, message, queue, within, None)

    def close(self) -> None:
        """Sends the spans that have ended, and stops the export. Blocks for 3 s at most."""
        # The provider alone would wait for half a minute.
        closing = Thread(target=self._provider.shutdown, name="tracing", daemon=True)
        closing.start()
        closing.join(_FLUSH_S)

    def _of_message(
        self, operation: _Operation, message: Message, queue: str, within: str, since_ns: int | None
    ) -> DeliverySpan | None:
        record, envelope = message.record, message.envelope
        origin = _origin({} if envelope is None else envelope.headers, within)
        if origin is None:
            return None
        facts = _facts(record.topic, record.id, record.attempts, record.due_ms)
        return self._begun(operation, queue, facts, origin, since_ns)

    def _begun(
        self,
        operation: _Operation,
        destination: str,
        facts: Mapping[str, AttributeValue],
        origin: _Origin,
        since_ns: int | None = None,
    ) -> DeliverySpan:
        span = self._tracer.start_span(
            f"{operation.name} {destination}",
            context=origin.parent,
            kind=operation.kind,
            attributes={
                "messaging.system": "rabbitmq",
                "messaging.operation.type": operation.type,
                "messaging.operation.name": operation.name,
                "messaging.destination.name": destination,
                **facts,
            },
            links=origin.links,
            start_time=since_ns,
        )
        return DeliverySpan(span)


@dataclass(frozen=True, slots=True)
class _Origin:
    """The trace context that a new span continues, as its parent or as its link. `parent` holds an earlier span of the
    delivery. For the first span `parent` is empty, and `links` has the sender's span."""

    parent: Context
    links: tuple[Link, ...] = ()


def _origin(headers: Mapping[str, Any], within: str = "") -> _Origin | None:
    """Returns the trace context of a new span: the earlier span of the delivery (`within`) as parent, else the sender's
    span (`headers`) as link. None: there is no such context, or its trace is not sampled."""
    # The parent must not be a span of the calling task.
    nothing = Context()
    if (earlier := context.read(within)) is not None:
        parent = trace.set_span_in_context(NonRecordingSpan(_remote(earlier)), nothing)
        return _Origin(parent) if earlier.sampled else None
    sender = context.of_sender(headers)
    return _Origin(nothing, (Link(_remote(sender)),)) if sender is not None and sender.sampled else None


def _remote(known: TraceContext) -> SpanContext:
    return SpanContext(known.trace_id, known.span_id, is_remote=True, trace_flags=TraceFlags(known.sampled))


def _facts(topic: str, message_id: str, attempt: int, due_ms: int) -> dict[str, AttributeValue]:
    return {
        "messaging.message.id": message_id,
        "delaybridge.topic": topic,
        "delaybridge.attempt": attempt,
        "delaybridge.due_ms": due_ms,
    }
