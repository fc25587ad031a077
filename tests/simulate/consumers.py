"""Consumes messages in all ways: acks, nacks, rejects and requeues them, extends leases, or lets these end."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Final

from aio_pika.abc import AbstractIncomingMessage

from tests.events import What
from tests.history import History, now_ms
from tests.torture.amqp import Publisher, created_ms
from tests.torture.api import Api
from tests.torture.consumers import LAST_RETURNED, WAIT_MS, Pulled, Puller, Subscriber
from tests.torture.policies import Policies

_RETURNED: Final = 0.1
_RECORDED: Final = 0.7
_SLOW, _WORK_S = 0.1, (0.5, 4.0)  # the share of messages on which a consumer works for a while, and how long


class SpoilingPuller(Puller):
    """Pulls one topic for ever, in several ways. `spoiled`: the share of messages that it does not simply ack.
    `lease_ms`: the shortest and the longest lease. `waits`: the share of pulls that wait for a message."""

    def __init__(
        self,
        api: Api,
        topic: str,
        history: History,
        policies: Policies,
        random: Random,
        *,
        spoiled: float,
        lease_ms: tuple[int, int] = (1_500, 6_000),
        waits: float = 0.7,
        along: bool = False,
    ) -> None:
        super().__init__(api, topic, history, policies, random, along=along)
        self._spoiled = spoiled
        self._lease_ms = lease_ms
        self._waits = waits
        self._asked_ms = 0

    def _wanted(self) -> dict[str, int]:
        self._asked_ms = now_ms()
        return {
            "max": self._random.choice((1, 5, 50)),
            "wait": WAIT_MS if self._random.random() < self._waits else 0,
            "lease": self._random.randint(*self._lease_ms),
        }

    async def _settle(self, pulled: list[Pulled], lease_ms: int) -> None:
        acked: list[Pulled] = []
        for one in pulled:
            self._history.note(one["body"], What.LEASED, due_ms=self._asked_ms + lease_ms)
        for one in pulled:
            if self._random.random() >= self._spoiled:
                acked.append(one)
                continue
            fate = self._random.choice(("nack", "leave", "extend", "late", "both", "alone"))
            may_return = one["attempts"] <= min(LAST_RETURNED, max(1, self._history.max_retry))
            if fate in ("nack", "leave") and may_return:
                self._history.note(one["body"], What.RETURNED, attempt=one["attempts"])
                if fate == "nack":
                    await self._nack(one)
            elif fate == "extend":
                await self._extend(one)
                acked.append(one)
            elif fate == "both" and may_return:
                self._history.note(one["body"], What.RETURNED, attempt=one["attempts"])
                await asyncio.gather(self._nack(one), self._ack_one(one))
            elif fate == "late" and may_return:
                self._history.note(one["body"], What.RETURNED, attempt=one["attempts"])
                await asyncio.sleep(lease_ms / 1_000 * self._random.uniform(0.9, 1.2))
                await self._ack_one(one)
            else:
                await self._ack_one(one)
        await self._ack(acked)

    async def _ack_one(self, one: Pulled) -> None:
        self._history.note(one["body"], What.ACKING)
        response = await self._api.call("POST", self._path(one, "ack"), {"receipt": one["receipt"]})
        if response is not None and response.status_code < 300:
            self._history.note(one["body"], What.ACKED)

    async def _extend(self, one: Pulled) -> None:
        """Extends the lease, and works on."""
        asked_ms = now_ms()
        extended = {"receipt": one["receipt"], "lease": self._random.randint(*self._lease_ms)}
        response = await self._api.call("POST", self._path(one, "extend"), extended)
        if response is not None and response.status_code < 300:
            self._history.note(one["body"], What.LEASED, due_ms=asked_ms + extended["lease"])
            await asyncio.sleep(self._random.uniform(0, extended["lease"]) / 1_000)


class RecordingSubscriber(Subscriber):
    """Consumes over AMQP. Requeues some messages, and records the acks of most, each with its message's moment of
    creation.

    `recorded`: topic, id and moment of creation of each message whose last delivery ended with a recorded ack, which
    RabbitMQ has confirmed. After a crash an AMQP client's own message may come once more, and its record begins again.
    Left out are messages that may wait by Redis' clock, which no ack ends: it is behind, or was ahead at their send.
    """

    def __init__(self, url: str, topic: str, history: History, publisher: Publisher, random: Random) -> None:
        super().__init__(url, topic, history, random, rejected=_RETURNED)
        self._publisher = publisher
        self.recorded: dict[tuple[str, str, int], None] = {}

    async def _received(self, message: AbstractIncomingMessage) -> None:
        if (created := created_ms(message)) is not None:
            self.recorded.pop((self._topic, str(message.message_id), created), None)
        await super()._received(message)

    async def _return(self, message: AbstractIncomingMessage) -> None:
        if self._random.random() < 0.5:
            await message.nack(requeue=True)
        else:
            await message.reject(requeue=False)

    async def _finish(self, message: AbstractIncomingMessage) -> None:
        if self._random.random() < _SLOW:
            await asyncio.sleep(self._random.uniform(*_WORK_S))  # its id may be used again meanwhile
        message_id, created = str(message.message_id), created_ms(message)
        records = self._random.random() < _RECORDED
        is_recorded = records and await self._publisher.record_ack(self._topic, message_id, created)
        if is_recorded and created is not None and self._history.ahead_ms >= 0 and created <= now_ms():
            self.recorded[self._topic, message_id, created] = None
        await message.ack()
