"""Keeps the lease of a message while a handler has the message: extends the lease well before its end."""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import replace
from datetime import timedelta

from delaybridge_client.consumer.terms import Terms
from delaybridge_client.errors import DelaybridgeError
from delaybridge_client.operations import extend
from delaybridge_client.retries import is_temporary
from delaybridge_client.sender import Sender
from delaybridge_client.values.message import LeasedMessage


class Lease:
    """The lease of one message. `lost`: why the lease has ended or is no longer extended; empty while it holds."""

    def __init__(self, sender: Sender, message: LeasedMessage, terms: Terms) -> None:
        self.lost = ""
        self._sender = sender
        self._message = message
        self._terms = terms
        self._ends_at = time.monotonic() + terms.lease.total_seconds()
        self._extends_at = math.inf  # while an extension goes on, or none will follow
        self._keeping = asyncio.create_task(self._keep())

    @property
    def ended(self) -> bool:
        """Whether the lease has ended by this machine's clock, or the bridge has said so."""
        return bool(self.lost) or time.monotonic() >= self._ends_at

    @property
    def blocked(self) -> str:
        """Why the lease ended unextended, if the handler kept the event loop from running; otherwise empty."""
        now = time.monotonic()
        if now < max(self._ends_at, self._extends_at):
            return ""
        late_s = now - self._extends_at
        return f"the handler blocked the event loop for {late_s:.1f} s, so nothing extended the lease: use a thread"

    def release(self) -> None:
        """Stops the extensions of the lease, because its message is settled."""
        self._keeping.cancel()

    async def _keep(self) -> None:
        longest_until = time.monotonic() + self._terms.longest.total_seconds()
        pause_s = self._terms.until_extension_s()
        while True:
            self._extends_at = time.monotonic() + pause_s
            await asyncio.sleep(pause_s)
            self._extends_at = math.inf
            if time.monotonic() > longest_until:
                self.lost = f"it was handled for longer than {self._terms.longest}"
                return
            try:
                pause_s = await self._extend()
            except DelaybridgeError as error:
                if not is_temporary(error) or self.ended:
                    self.lost = str(error)
                    return
                pause_s = self._sender.settings.retries.pause_s(1)

    async def _extend(self) -> float:
        """Extends the lease, and returns the pause until the next extension, in seconds."""
        begun, message = time.monotonic(), self._message
        left = timedelta(seconds=max(self._ends_at - begun, 0.1))
        operation = extend(message.topic, message.id, lease=self._terms.lease, receipt=message.receipt)
        await self._sender.call(operation, retries=replace(self._sender.settings.retries, patience=left))
        self._ends_at = begun + self._terms.lease.total_seconds()
        return self._terms.until_extension_s()
