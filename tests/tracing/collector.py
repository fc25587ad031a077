"""Runs a collector of OpenTelemetry: a receiver on loopback that decodes the spans of each export."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.callbacks.receiver import Receiver, receiving


@dataclass(frozen=True, slots=True)
class Seen:
    """A span, and the attributes of the process that made it."""

    span: Span
    attributes: dict[str, Any]
    resource: dict[str, Any]

    @property
    def operation(self) -> str:
        name: str = self.attributes["messaging.operation.name"]
        return name


@dataclass(slots=True)
class Collector:
    receiver: Receiver
    seen: list[Seen] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.receiver.port}"

    async def spans_of(self, message_id: str, *operations: str) -> list[Seen]:
        """Waits until the message has a span for each of these operations. Returns all its spans so far, the earliest
        first."""
        while True:
            found = [one for one in self.seen if one.attributes["messaging.message.id"] == message_id]
            if len(found) >= len(operations):
                found.sort(key=lambda one: one.span.start_time_unix_nano)
                assert sorted(one.operation for one in found) == sorted(operations)
                return found
            self._read((await self.receiver.calls.get()).body)

    def _read(self, body: bytes) -> None:
        for of_process in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = _values(of_process.resource.attributes)
            for scope in of_process.scope_spans:
                self.seen += [Seen(span, _values(span.attributes), resource) for span in scope.spans]


@asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    async with receiving() as receiver:
        yield Collector(receiver)


def _values(attributes: Iterable[KeyValue]) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value") or "string_value") for one in attributes}
