"""Tests when deliveries are traced."""

from __future__ import annotations

import sys

import pytest
from structlog.testing import capture_logs

from bridge.tracing.start import asks, start

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@pytest.mark.parametrize(
    ("environment", "asked"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "delays"}, False),
        (ENDPOINT, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", **ENDPOINT}, False),
        ({"OTEL_SDK_DISABLED": "true", **ENDPOINT}, False),
        ({"OTEL_SDK_DISABLED": "false", **ENDPOINT}, True),
    ],
)
def test_environment_decides_whether_deliveries_are_traced(environment: dict[str, str], asked: bool) -> None:
    assert asks(environment) is asked


@pytest.mark.parametrize(
    ("environment", "reason"),
    [
        (
            {"OTEL_TRACES_EXPORTER": "zipkin,otlp,console"},
            "OTEL_TRACES_EXPORTER is console, zipkin; allowed are otlp and none",
        ),
        (
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", **ENDPOINT},
            "OTEL_EXPORTER_OTLP_PROTOCOL is grpc; allowed is http/protobuf",
        ),
        (
            {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", **ENDPOINT},
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL is http/json; allowed is http/protobuf",
        ),
    ],
)
def test_value_that_the_bridge_cannot_use_leaves_deliveries_untraced(environment: dict[str, str], reason: str) -> None:
    with capture_logs() as logged:
        assert start(environment, "") is None
    assert logged == [{"event": "tracing.off", "log_level": "warning", "reason": reason}]


def test_missing_extra_leaves_deliveries_untraced(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.delitem(sys.modules, "bridge.tracing.exporting", raising=False)
    monkeypatch.delattr("bridge.tracing.exporting", raising=False)
    with capture_logs() as logged:
        assert start(ENDPOINT, "") is None
    assert logged[0]["reason"] == f"import of {missing} halted; None in sys.modules; install delaybridge[otel]"


def test_variable_that_opentelemetry_refuses_leaves_deliveries_untraced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "-1")
    with capture_logs() as logged:
        assert start(ENDPOINT, "") is None
    assert logged[0]["reason"].startswith("OpenTelemetry refuses a variable: ")
