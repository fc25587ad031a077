"""Stands in for the service: records its calls, and returns what a test has set."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from bridge.model.errors import BridgeError, NotFound
from bridge.model.message import Envelope, Message, State
from bridge.model.values import AckResult, AckVerdict, Draft, Leased, Sent, TopicInfo
from bridge.service.pools.pools import Pools
from bridge.service.service import Service
from bridge.settings.settings import Settings
from tests.effective import effective
from tests.recorded_actions import RecordedActions
from tests.records import record

BORN_MS = 1_700_000_000_000


def message(
    message_id: str = "m-1",
    *,
    state: State = State.WAITING,
    due_ms: int = BORN_MS + 5_000,
    expires_ms: int = BORN_MS + 65_000,
    attempts: int = 0,
    lease_until_ms: int = 0,
    envelope: Envelope | None = Envelope(content_type="text/plain; charset=utf-8", body=b"abc"),  # noqa: B008
) -> Message:
    found = record(
        id=message_id,
        state=state,
        created_ms=BORN_MS,
        due_ms=due_ms,
        expires_ms=expires_ms,
        attempts=attempts,
        arrives_ms=due_ms,
        last_ms=due_ms,
        lease_until_ms=lease_until_ms,
    )
    return Message(record=found, envelope=envelope)


def topic_info(topic: str, *, lateness_ms: dict[str, float | None] | None = None) -> TopicInfo:
    edges = ("1m", "10m", "30m", "1h", "6h", "1d", "7d", "30d", "beyond")
    return TopicInfo(
        topic=topic,
        counts={"waiting": 47, "ready": 2, "leased": 3, "acked": 9, "expired": 0, "dead": 1, "deleted": 4},
        overdue=2,
        waiting_by_due={edge: at + 1 for at, edge in enumerate(edges)},
        lateness_ms=lateness_ms or dict.fromkeys(("p50", "p90", "p99", "max")),
        policy=effective(),
        ready_queue=f"ready.{topic}",
        dead_queue=f"dead.{topic}",
    )


class StandIn:
    """All parts of the service in one object. `asked` holds the calls. If `error` is set, every call raises it."""

    def __init__(self) -> None:
        self.settings = Settings()
        self.sending = self.pulling = self.settling = self.changing = self.lookup = self.topics = self
        self.default = self.given_names = self
        self.actions = RecordedActions()
        self.names: dict[str, str] = {}
        self.asked: list[tuple[str, Any]] = []
        self.error: BridgeError | None = None
        self.live: dict[str, Message] = {}
        self.pulls: list[list[Message] | BridgeError] = []
        self.known_topics: list[TopicInfo] = []

    @property
    def service(self) -> Pools:
        return cast("Pools", self)

    @property
    def services(self) -> dict[str, Service]:
        return {"default": cast("Service", self)}

    def serving(self, topic: str) -> Service:
        return cast("Service", self)

    def _ask(self, name: str, given: Any) -> None:
        self.asked.append((name, given))
        if self.error is not None:
            raise self.error

    async def send(self, draft: Draft, maker: object) -> Sent:
        self._ask("send", draft)
        if draft.id in self.live:
            return Sent(message=self.live[draft.id], replayed=True)
        sent = message(draft.id or "made", due_ms=BORN_MS + (draft.delay_ms or 0), envelope=draft.envelope)
        return Sent(message=sent, replayed=False)

    async def pull(self, topics: Sequence[str], *, limit: int, wait_ms: int, lease_ms: int | None) -> list[Leased]:
        self._ask("pull", (list(topics), limit, wait_ms, lease_ms))
        pulled = self.pulls.pop(0) if self.pulls else []
        if isinstance(pulled, BridgeError):
            raise pulled
        return [Leased(message=one, receipt=f"receipt-{one.record.id}") for one in pulled]

    async def ack_ids(self, topic: str, ids: Sequence[str]) -> list[AckResult]:
        self._ask("ack_ids", (topic, list(ids)))
        return [AckResult(id=message_id, verdict=AckVerdict.UNKNOWN) for message_id in ids]

    async def nack(
        self, topic: str, message_id: str, *, receipt: str | None, delay_ms: int | None, reason: str | None
    ) -> Message:
        self._ask("nack", (topic, message_id, receipt, delay_ms, reason))
        return message(message_id)

    async def delete(self, topic: str, message_id: str, *, release: bool, waits: bool) -> Message:
        assert waits
        self._ask("delete", (topic, message_id, release))
        return message(message_id, state=State.DELETED)

    async def get(self, topic: str, message_id: str) -> Message:
        self._ask("get", (topic, message_id))
        if message_id not in self.live:
            raise NotFound(f"there is no message {message_id!r}")
        return self.live[message_id]

    async def info(self, topic: str) -> TopicInfo:
        self._ask("info", topic)
        for info in self.known_topics:
            if info.topic == topic:
                return info
        raise NotFound(f"there is no topic {topic!r}")

    async def keep(self, topic: str, name: str) -> None:
        if topic != name:
            self.names[topic] = name

    async def all(self) -> dict[str, str]:
        return self.names

    async def topic_infos(self) -> list[TopicInfo]:
        return await self.infos()

    async def infos(self) -> list[TopicInfo]:
        self._ask("infos", None)
        return self.known_topics
