"""Shows the work of the loops: the checkpoint's batches and copies, and the results of the audit and of the server
checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from bridge.metrics.registry import counter, gauge, histogram

BATCH: Final = histogram(
    "checkpoint_batch_size", "Copies in a batch of the checkpoint", buckets=(1, 3, 10, 30, 100, 250, 1_000)
)
_HELD: Final = gauge("checkpoint_held", "Copies that the checkpoint holds in memory until they are due")
REFUSED: Final = counter("refused", "Copies set aside because the bridge could not read them")
PARKED_AGAIN: Final = counter(
    "parked_again", "Copies that came in a bundle, were far from due, and went back into the wheel in another"
)
OVERDUE: Final = gauge("overdue", "Messages without a live copy, as the last audit found them", "topic")
FINDINGS: Final = gauge("findings", "Findings of the latest checks and probes of the servers, by severity", "severity")
BULK_CHANGED: Final = counter("bulk_changed", "Messages that bulk operations have changed, by action", "action")
BULK_RUNNING: Final = gauge("bulk_operations", "Bulk operations that the process works on")
FAILURES: Final = counter("loop_failures", "Errors that a loop met because of a bug of the bridge", "loop")
LAST_RUN: Final = gauge(
    "last_run_timestamp_seconds", "When the loop last ended a whole run: the audit of all records, the watch", "part"
)

_holders: Final[set[Callable[[], int]]] = set()
_HELD.set_function(lambda: sum(held() for held in _holders))


@contextmanager
def holding(held: Callable[[], int]) -> Iterator[None]:
    """Within the context, the metric `delaybridge_checkpoint_held` includes the number of copies that `held`
    returns."""
    _holders.add(held)
    try:
        yield
    finally:
        _holders.discard(held)
