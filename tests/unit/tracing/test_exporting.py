"""Tests that a process has an id of its own among those that export, and ends although its collector is silent."""

from __future__ import annotations

import socket
import threading
from time import monotonic

import pytest

from bridge.model.message import Copy, Envelope
from bridge.tracing import deliveries
from bridge.tracing.exporting import deliveries as begun
from bridge.tracing.exporting import resource_of

COPY = Copy(
    topic="orders", id="o-1", epoch=1, nonce=10, attempt=1, max_retry=3, due_ms=2, expires_ms=0, created_ms=1,
    envelope=Envelope(headers={"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}),
)  # fmt: skip


def test_each_process_has_an_instance_id_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_RESOURCE_ATTRIBUTES", raising=False)
    made = {resource_of(process).attributes["service.instance.id"] for process in ("api-1", "api-2", "", "")}
    assert len(made) == 4
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=host-7")
    named = [resource_of(process).attributes["service.instance.id"] for process in ("api-1", "")]
    assert named == ["host-7/api-1", "host-7"]


def test_environment_names_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resource_of("").attributes["service.name"] == "delaybridge"
    monkeypatch.setenv("OTEL_SERVICE_NAME", "delays")
    assert resource_of("").attributes["service.name"] == "delays"


@pytest.mark.expects_log("Failed to export %s batch due to timeout, max retries or shutdown.")
def test_process_waits_a_limited_time_for_a_silent_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deliveries, "_FLUSH_S", 0.1)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        tracing = begun("")
        span = tracing.released(COPY, "delay.ready")
        assert span is not None
        span.end()
        began_s = monotonic()
        tracing.close()
        assert monotonic() - began_s < 5  # the SDK would wait for 30 s
        (closing,) = (thread for thread in threading.enumerate() if thread.name == "tracing")
        closing.join()
