"""Counts requests, connections and waiting pulls of the HTTP server."""

from __future__ import annotations

from typing import Final

from prometheus_client import Counter

from bridge.metrics.registry import counter, gauge, histogram

OTHER: Final = "other"
"""The value of the label `operation` for requests without one: pages, and paths that do not exist."""

CONNECTIONS: Final = gauge("http_connections", "Open connections of clients")
WAITING_PULLS: Final = gauge("http_waiting_pulls", "Pulls that wait for a message: long polls")
REFUSED: Final = counter(
    "http_refused",
    "Requests refused and clients disconnected because they broke a limit of the HTTP server",
    "status",
)
ACCESS_REFUSED: Final = counter(
    "access_refused", "Requests refused because they have no token or theirs does not allow them", "kind"
)
_REQUESTS: Final = counter("http_requests", "Requests answered", "operation", "code")
_SECONDS: Final = histogram(
    "http_request_seconds",
    "Time from the head of a request to its answer",
    "operation",
    buckets=(0.005, 0.01, 0.025, 0.1, 0.5, 2.5, 10),
)


class Requests:
    """Counts the requests for one operation. Keeps the operation's metrics, so that a request needs no look-up in the
    metrics library."""

    def __init__(self, operation: str) -> None:
        self._operation = operation
        self._seconds = _SECONDS.labels(operation)
        self._by_code: dict[int, Counter] = {}

    def answered(self, code: int, took_s: float) -> None:
        """Counts a request that was answered with the status `code`. `took_s`: seconds from the request's head to the
        end of its answer."""
        counted = self._by_code.get(code)
        if counted is None:
            counted = self._by_code[code] = _REQUESTS.labels(self._operation, str(code))
        counted.inc()
        self._seconds.observe(took_s)


_by_operation: Final[dict[str, Requests]] = {}


def requests(operation: str) -> Requests:
    """Returns the counter of an operation's requests, for one operation always the same object. It is never forgotten:
    the code fixes the number of operations."""
    found = _by_operation.get(operation)
    if found is None:
        found = _by_operation[operation] = Requests(operation)
    return found
