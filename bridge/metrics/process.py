"""Shows this process: its build, its parts, and how much of the machine it uses."""

from __future__ import annotations

from importlib.metadata import version
from platform import python_version
from typing import Final

from prometheus_client import ProcessCollector

from bridge.metrics.registry import REGISTRY, gauge

UP: Final = gauge("up", "1 if the part works (broker, store, checkpoint and other loops), asked at each scrape", "part")
BREAKER: Final = gauge("breaker", "0 closed, 1 half-open, 2 open: calls to the part fail at once", "part")
CERTIFICATE: Final = gauge(
    "certificate_expires_timestamp_seconds", "When the certificate that the process has read expires", "setting"
)
_BUILD: Final = gauge("build_info", "1; the labels name the versions", "version", "python")
_BUILD.labels(version("delaybridge"), python_version()).set(1)

ProcessCollector(registry=REGISTRY)
