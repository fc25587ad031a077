"""Acknowledges messages by receipt. Messages that are acked while a call is in flight share the next call."""

from __future__ import annotations

import asyncio
from typing import Final

from delaybridge_client.operations import ack_many
from delaybridge_client.sender import Sender
from delaybridge_client.values.message import AckVerdict

_MOST: Final = 1_000  # by one call


class Acks:
    """The acks of one topic. At most one call is in flight."""

    def __init__(self, sender: Sender, topic: str) -> None:
        self._sender = sender
        self._topic = topic
        self._waiting: list[tuple[str, asyncio.Future[AckVerdict]]] = []
        self._working: asyncio.Task[None] | None = None

    async def ack(self, receipt: str) -> AckVerdict:
        """Acknowledges one message, in one call with other messages. Returns the bridge's verdict.

        Raises:
            DelaybridgeError: the call failed, even after retries.
        """
        return await self.start(receipt)

    def start(self, receipt: str) -> asyncio.Future[AckVerdict]:
        """Acknowledges one message as `ack` does. The ack is sent even if nobody awaits the verdict."""
        verdict: asyncio.Future[AckVerdict] = asyncio.get_running_loop().create_future()
        self._waiting.append((receipt, verdict))
        if self._working is None:
            self._working = asyncio.create_task(self._work())
        return verdict

    async def _work(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:_MOST], self._waiting[_MOST:]
            try:
                results = await self._sender.call(ack_many(self._topic, receipts=[receipt for receipt, _ in batch]))
                for (_, verdict), result in zip(batch, results, strict=True):
                    if not verdict.done():
                        verdict.set_result(result.result)
            except Exception as error:  # noqa: BLE001 - whatever it is, no ack may wait for ever
                for _, verdict in batch:
                    if not verdict.done():
                        verdict.set_exception(error)
        self._working = None
