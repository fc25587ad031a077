"""Counts everything once for each of 1,000 topics and prints the page: `python -m tests.unit.metrics.many_topics`."""

from __future__ import annotations

import asyncio
import sys

from bridge.http.app import OPERATIONS
from bridge.metrics import broker, callbacks, http, loops, messages, page, store
from bridge.metrics.states import STATES, TopicState
from bridge.metrics.topics import LABELS, ByReason, ByTopic
from bridge.store.scripts import SCRIPTS

TOPICS = [f"orders-{number}" for number in range(1_000)]
WIRES = ("camellia", "lmstfy", "youzan", "ouqiang", "changsongl", "tasks", http.OTHER)
FIVE_STATUSES = (200, 401, 404, 422, 503)


async def main() -> None:
    """Prints the page."""
    for topic in TOPICS:
        for metric in [*vars(messages).values(), *vars(callbacks).values()]:
            if isinstance(metric, ByTopic):
                metric.add(topic)
            elif isinstance(metric, ByReason):
                metric.add(topic, "rejected")
        callbacks.failed(topic, "timeout")
    for label in LABELS.summed(dict.fromkeys(TOPICS, 1)):
        loops.OVERDUE.labels(label).set(0)
    for operation in [*(one.name for one in OPERATIONS), *WIRES]:
        for code in FIVE_STATUSES:
            http.requests(operation).answered(code, 0.001)
    for cause in broker.Failure:
        broker.failed(cause, 1)
    for name in [*SCRIPTS, store.COMMAND]:
        store.answered([name], 0.001)
        store.failed([name])
    state = TopicState(
        by_state=dict.fromkeys(("waiting", "ready", "leased", "dead"), 1),
        by_due=dict.fromkeys(("overdue", "minute", "hour", "day", "later"), 1),
        oldest_overdue_ms=1,
        oldest_ready_ms=1,
    )
    STATES.show([(topic, state) for topic in TOPICS], ())
    rendered, _ = await page.render("", {})
    sys.stdout.write(rendered.decode())


if __name__ == "__main__":
    asyncio.run(main())
