"""Counts requests by the minute, and shows topic sizes and whether this process is online.

All figures but the topic sizes concern this process only, as in camellia-delay-queue.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from bridge.model.values import TopicInfo

Json = dict[str, Any]

_INTERVAL_S: Final = 60.0
_IDLE_S: Final = 20.0
# The last three stay 0: they happen in the process that runs the checkpoint, and in no call of this wire.
_REQUESTS: Final = (
    "sendMsg",
    "pullMsg",
    "deleteMsg",
    "ackMsg",
    "getMsg",
    "triggerMsgReady",
    "triggerMsgEndLife",
    "triggerMsgTimeout",
)
_SIZES: Final = {
    "sizeOf0To1min": "1m",
    "sizeOf1minTo10min": "10m",
    "sizeOf10minTo30min": "30m",
    "sizeOf30minTo1hour": "1h",
    "sizeOf1hourTo6hour": "6h",
    "sizeOf6hourTo1day": "1d",
    "sizeOf1dayTo7day": "7d",
    "sizeOf7dayTo30day": "30d",
    "sizeOf30dayToInfinite": "beyond",
}


@dataclass(slots=True)
class _Interval:
    requests: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    gaps_ms: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))


class Monitor:
    """Counts the messages of successful calls by topic and minute, and reports the last full minute."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._began_s = now_s()
        self._current, self._last = _Interval(), _Interval()

    def count(self, topic: str, request: str) -> None:
        self._roll()
        self._current.requests[topic][request] += 1

    def count_pulled(self, topic: str, gaps_ms: Sequence[int]) -> None:
        """Counts the messages of one pull. `gaps_ms`: for each message, how long after its due moment it was leased."""
        if gaps_ms:
            self._roll()
            self._current.requests[topic]["pullMsg"] += len(gaps_ms)
            self._current.gaps_ms[topic] += gaps_ms

    def data(self, topics: Iterable[TopicInfo], may_see: Callable[[str], bool], names: Mapping[str, str]) -> Json:
        """Returns the statistics of the last full minute, in the form of camellia's `getMonitorData`.

        `topics`: the topics whose lateness is shown. `may_see`: whether the caller may see a topic. `names`: the
        clients' name of each topic, by the bridge's topic.
        """
        self._roll()
        last = self._last
        return {
            "requestStatsList": [
                {"topic": names.get(topic, topic), **{request: counts[request] for request in _REQUESTS}}
                for topic, counts in last.requests.items()
                if may_see(topic)
            ],
            "pullMsgTimeGapStatsList": [
                {"topic": names.get(topic, topic), "count": len(gaps), "avg": sum(gaps) / len(gaps), "max": max(gaps)}
                for topic, gaps in last.gaps_ms.items()
                if may_see(topic)
            ],
            "readyQueueTimeGapStatsList": [
                {**gap, "topic": names.get(info.topic, info.topic)}
                for info in topics
                if may_see(info.topic) and (gap := _ready_gap(info))
            ],
        }

    def _roll(self) -> None:
        full = int((self._now_s() - self._began_s) // _INTERVAL_S)
        if full > 0:
            self._last = self._current if full == 1 else _Interval()
            self._current = _Interval()
            self._began_s += full * _INTERVAL_S


def _ready_gap(info: TopicInfo) -> Json | None:
    """Returns the lateness in ms of the latest releases of the topic in this process. `avg` is the median, and `count`
    is 0. None: there was no release."""
    longest = info.lateness_ms.get("max")
    if longest is None:
        return None
    return {"topic": info.topic, "count": 0, "avg": info.lateness_ms.get("p50"), "max": round(longest)}


def topic_info(topic: str, info: TopicInfo | None) -> Json:
    """Returns the numbers of a topic's messages, in the form of camellia's `getTopicInfo`. `topic`: the clients' name
    of the topic. `info` None: the topic does not exist, and all numbers are 0."""
    counts = info.counts if info else {}
    due = dict(info.waiting_by_due) if info else {}
    due["1m"] = due.get("1m", 0) + (info.overdue if info else 0)
    return {
        "topic": topic,
        "waitingQueueSize": counts.get("waiting", 0),
        "waitingQueueInfo": {name: due.get(edge, 0) for name, edge in _SIZES.items()},
        "readyQueueSize": counts.get("ready", 0),
        "ackQueueSize": counts.get("leased", 0),
    }


def monitor_string(data: Json, topics: Sequence[Json]) -> Json:
    """Returns one document for camellia's `getMonitorString`. `data`: from `Monitor.data`. `topics`: from
    `topic_info`."""
    return {
        "requestStats": data["requestStatsList"],
        "pullMsgTimeGapStats": data["pullMsgTimeGapStatsList"],
        "readyQueueTimeGapStats": data["readyQueueTimeGapStatsList"],
        "topicInfoStats": [
            {name: topic[name] for name in ("topic", "waitingQueueSize", "ackQueueSize", "readyQueueSize")}
            for topic in topics
        ],
        "waitingQueueStats": [{**topic["waitingQueueInfo"], "topic": topic["topic"]} for topic in topics],
    }


class Presence:
    """Keeps whether a load balancer should send requests to this process (`online`), and when the last request came."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._used_s = now_s()
        self.online = True

    def use(self) -> None:
        self._used_s = self._now_s()

    @property
    def idle(self) -> bool:
        return self._now_s() - self._used_s > _IDLE_S
