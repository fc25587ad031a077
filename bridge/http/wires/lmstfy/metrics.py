"""Counts the calls of lmstfy's wire in this process, under lmstfy's metric names."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Final

from bridge.http.wires.lmstfy.exposition import Counter, Histogram, render

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bridge.model.lmstfy import LmstfyToken
    from bridge.model.values import TopicInfo

_POOL: Final = ("pool",)
_QUEUE: Final = ("pool", "namespace", "queue")
_REDIS: Final = "infra_lmstfy_redis"
_HTTP: Final = "infra_lmstfy_http"
_DIGEST: Final = 12
_AGES_MS: Final = [15 * 3.5**at for at in range(7)]
_LATENCIES_MS: Final = [15 * 2.5**at for at in range(9)]


class Metrics:
    def __init__(self) -> None:
        self.by_pool = {
            name: Counter(f"{_REDIS}_{name}", text, _POOL)
            for name, text in {
                "publish_jobs": "jobs published",
                "consume_jobs": "jobs consumed",
                "consume_multi_jobs": "jobs consumed",
                "pool_add_jobs": "jobs published",
                "pool_get_jobs": "jobs consumed",
                "pool_delete_jobs": "jobs acknowledged or deleted",
                "timer_add_jobs": "jobs published with a delay, and jobs consumed",
                "queue_direct_push_jobs": "jobs published without a delay",
                "queue_pop_jobs": "jobs consumed",
                "deadletter_respawn_jobs": "dead letters made ready",
            }.items()
        }
        self.publish_queue_jobs = Counter(f"{_REDIS}_publish_queue_jobs", "jobs published", _QUEUE)
        self.consume_queue_jobs = Counter(f"{_REDIS}_consume_queue_jobs", "jobs consumed", _QUEUE)
        self.job_elapsed = Histogram(
            f"{_REDIS}_job_elapsed_ms", "milliseconds from publish to consume", _QUEUE, _AGES_MS
        )
        self.job_ack_elapsed = Histogram(
            f"{_REDIS}_job_ack_elapsed_ms", "milliseconds from publish to ack", _QUEUE, _AGES_MS
        )
        self.timer_sizes = Counter(f"{_REDIS}_timer_sizes", "delayed and leased jobs", _POOL, "gauge")
        self.queue_sizes = Counter(f"{_REDIS}_queue_sizes", "ready jobs", _QUEUE, "gauge")
        self.deadletter_sizes = Counter(f"{_REDIS}_deadletter_sizes", "dead letters", _QUEUE, "gauge")
        self.latency = Histogram(
            f"{_HTTP}_latency_milliseconds",
            "milliseconds to answer a request",
            ("pool", "namespace", "api", "method"),
            _LATENCIES_MS,
        )
        self.http_codes = Counter(
            f"{_HTTP}_http_codes", "answers by status", ("pool", "namespace", "api", "method", "code")
        )
        self.rate_limit = Counter(
            f"{_HTTP}_rate_limit", "requests refused by a rate limit", ("pool", "namespace", "token", "action")
        )

    def published(self, pool: str, namespace: str, queue: str, *, delayed: bool) -> None:
        self._count(pool, "publish_jobs", "pool_add_jobs", "timer_add_jobs" if delayed else "queue_direct_push_jobs")
        self.publish_queue_jobs.add(pool, namespace, queue)

    def consumed(self, pool: str, namespace: str, queue: str, elapsed_ms: float) -> None:
        names = ("consume_jobs", "consume_multi_jobs", "pool_get_jobs", "queue_pop_jobs", "timer_add_jobs")
        self._count(pool, *names)
        self.consume_queue_jobs.add(pool, namespace, queue)
        self.job_elapsed.observe(pool, namespace, queue, value=elapsed_ms)

    def ended(self, pool: str, namespace: str, queue: str, elapsed_ms: float) -> None:
        self._count(pool, "pool_delete_jobs")
        self.job_ack_elapsed.observe(pool, namespace, queue, value=elapsed_ms)

    def respawned(self, pool: str, count: int) -> None:
        self.by_pool["deadletter_respawn_jobs"].add(pool, amount=count)

    def refused(self, token: LmstfyToken, action: str) -> None:
        """Counts a request that a rate limit refused. The label has only the first digits of the token's SHA-256,
        because anybody may read the metrics. `action`: `produce` or `consume`."""
        digest = sha256(token.secret.encode()).hexdigest()[:_DIGEST]
        self.rate_limit.add(token.pool, token.namespace, digest, action)

    def answered(self, pool: str, namespace: str, api: str, method: str, *, status: int, took_s: float) -> None:
        if status < 300:
            self.latency.observe(pool, namespace, api, method, value=took_s * 1_000)
        self.http_codes.add(pool, namespace, api, method, str(status))

    def sized(self, pool: str, infos: Mapping[tuple[str, str], TopicInfo]) -> None:
        """Sets the gauges of a pool to the sizes of its queues. `infos`: by (namespace, queue)."""
        self.timer_sizes.set(pool, to=sum(info.counts["waiting"] + info.counts["leased"] for info in infos.values()))
        for sizes, state in ((self.queue_sizes, "ready"), (self.deadletter_sizes, "dead")):
            sizes.values = {labels: value for labels, value in sizes.values.items() if labels[0] != pool}
            for (namespace, queue), info in infos.items():
                sizes.set(pool, namespace, queue, to=info.counts[state])

    def render(self) -> str:
        families = [*self.by_pool.values(), *(value for value in vars(self).values() if not isinstance(value, dict))]
        return render(families)

    def _count(self, pool: str, *names: str) -> None:
        for name in names:
            self.by_pool[name].add(pool)
