"""Decides at the start of a process whether its deliveries are traced.

The variables are OpenTelemetry's own. If a variable has a value that this bridge can't use, the bridge logs a warning
and traces nothing. A platform may set such variables for all programs, and deliveries matter more than traces.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import structlog

if TYPE_CHECKING:
    from bridge.tracing.deliveries import Deliveries

log = structlog.get_logger(__name__)

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_EXPORTER: Final = "OTEL_TRACES_EXPORTER"


def start(environment: Mapping[str, str], process: str) -> Deliveries | None:
    """Begins to trace deliveries if the environment asks for traces. Returns the object that makes the spans. None:
    deliveries are not traced. `process`: the name of this worker process; empty if it is the only one."""
    if not asks(environment):
        return None
    reason = unusable(environment)
    if reason is None:
        try:
            # These packages are optional, and a process that does not load them starts sooner.
            from bridge.tracing import exporting

            deliveries = exporting.deliveries(process)
        except ImportError as error:
            reason = f"{error}; install delaybridge[otel]"
        except (ValueError, OSError) as error:
            reason = f"OpenTelemetry refuses a variable: {error}"
        else:
            log.info("tracing.started")
            return deliveries
    log.warning("tracing.off", reason=reason)
    return None


def asks(environment: Mapping[str, str]) -> bool:
    """Whether the environment asks for traces: OTEL_TRACES_EXPORTER is not `none`, or it is unset and an endpoint is
    set. OTEL_SDK_DISABLED `true` switches traces off."""
    if environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    exporters = _exporters(environment)
    return exporters != {"none"} if exporters else any(environment.get(name) for name in _ENDPOINTS)


def unusable(environment: Mapping[str, str]) -> str | None:
    """Returns a sentence about the first variable with a value that the bridge does not support: its name, the value
    and what is allowed. None: the bridge supports all values."""
    if exporters := _exporters(environment) - {"otlp"}:
        return f"{_EXPORTER} is {', '.join(sorted(exporters))}; allowed are otlp and none"
    name = next((name for name in _PROTOCOLS if environment.get(name)), None)
    if name is not None and environment[name].strip() != "http/protobuf":
        return f"{name} is {environment[name]}; allowed is http/protobuf"
    return None


def _exporters(environment: Mapping[str, str]) -> set[str]:
    return {name for part in environment.get(_EXPORTER, "").split(",") if (name := part.strip())}
