"""What happened to every message of a run, and what of it must never have happened. Instants are Unix milliseconds."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from tests.fault.api import now_ms


@dataclass(frozen=True, slots=True)
class Delivery:
    asked_ms: int  # when the pull began that brought it; over AMQP, when it arrived
    arrived_ms: int
    due_ms: int  # as the delivery itself says
    attempt: int


@dataclass(slots=True)
class Life:
    """`not_before_ms` is the earliest moment it can be due, whichever of its sends is the one that counts."""

    not_before_ms: int
    sends: int = 0
    accepted: bool = False
    deleted_in_time: bool = False
    forgotten: bool = False
    acked_ms: int | None = None
    deliveries: list[Delivery] = field(default_factory=list)


class History:
    def __init__(self) -> None:
        self.lives: dict[str, Life] = {}
        self.accepted_count = 0
        self._owed: set[str] = set()
        self._happened = asyncio.Condition()

    async def accepted(self, message_id: str) -> None:
        life = self.lives[message_id]
        life.accepted = True
        self.accepted_count += 1
        if not life.deliveries:
            self._owed.add(message_id)
        await self._tell()

    async def deleted(self, message_id: str) -> None:
        """A delete was answered 200 just now."""
        life = self.lives[message_id]
        life.deleted_in_time = now_ms() < life.not_before_ms
        self._owed.discard(message_id)
        await self._tell()

    async def delivered(self, message_id: str, delivery: Delivery) -> None:
        self.lives[message_id].deliveries.append(delivery)
        self._owed.discard(message_id)
        await self._tell()

    async def more_accepted(self, count: int, *, within_s: float) -> None:
        """Waits until so many more sends were accepted."""
        until = self.accepted_count + count
        async with asyncio.timeout(within_s), self._happened:
            await self._happened.wait_for(lambda: self.accepted_count >= until)

    async def nothing_owed(self, *, within_s: float) -> None:
        """Waits until all that was accepted and not deleted has arrived; returns after `within_s` in any case."""
        try:
            async with asyncio.timeout(within_s), self._happened:
                await self._happened.wait_for(lambda: not self._owed)
        except TimeoutError:
            pass  # `lost` says which

    def lost(self) -> list[str]:
        return sorted(self._owed)

    def early(self) -> list[str]:
        return [
            one
            for one, life in self.lives.items()
            if any(it.arrived_ms < max(life.not_before_ms, it.due_ms) for it in life.deliveries)
        ]

    def undeleted(self) -> list[str]:
        """Deleted with a 200 before they were due, and delivered all the same."""
        return [one for one, life in self.lives.items() if life.deleted_in_time and life.deliveries]

    def beyond_attempts(self, most: int) -> list[str]:
        return [one for one, life in self.lives.items() if any(it.attempt > most for it in life.deliveries)]

    def back_after_ack(self) -> list[str]:
        """Handed out by a pull that began after the ack was answered. A message that was sent twice may have ended
        between, and then its id was free for a second one."""
        return [
            one
            for one, life in self.lives.items()
            if (acked_ms := life.acked_ms) is not None
            and life.sends == 1
            and any(it.asked_ms > acked_ms for it in life.deliveries)
        ]

    def forgotten(self) -> list[str]:
        """Accepted, and then not known to the bridge."""
        return [one for one, life in self.lives.items() if life.forgotten]

    async def _tell(self) -> None:
        async with self._happened:
            self._happened.notify_all()
