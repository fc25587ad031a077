"""Lets the next pull of a consumer take acks along, so that a message costs one call in place of two."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from delaybridge_client.values.message import LeasedMessage, SettledLease

_MOST: Final = 1_000  # by one pull

_Ack = tuple[LeasedMessage, "asyncio.Future[str | None]"]


class NextPull:
    """The acks for the next pull. A pull takes acks along only if they are what it waits for: all places are taken, and
    each ack frees one. So no ack waits for a pull that is in flight, or for a pull that does not come. Nor does an ack
    wait while another message waits for its handler: a handler of one message after the other would stand still."""

    def __init__(self, wake: asyncio.Event, arrived: asyncio.Queue[Any]) -> None:
        """`wake`: the event that the pull waits for while all places are taken. `arrived`: the messages that wait for
        their handler."""
        self.acks: list[_Ack] = []
        self._wake = wake
        self._arrived = arrived
        self._follows = self._refused = False

    def wait(self) -> None:
        """Notes that the next pull waits for a free place, so it follows an ack at once."""
        self._follows = not self._refused

    def start(self) -> list[_Ack]:
        """Notes that the pull starts. Returns the acks that the pull takes along. The caller must pass them to `end`,
        whatever happens to the pull."""
        acks, self.acks = self.acks, []
        self._follows = False
        return acks

    def refuse(self) -> None:
        """Notes that the bridge has refused a pull with acks. No further pull takes any."""
        self._refused = True

    @staticmethod
    def end(acks: Sequence[_Ack], results: Sequence[SettledLease] = ()) -> None:
        """Passes on the results of a pull's acks. Acks without a result are sent by themselves: a repeated ack has the
        result of the first one."""
        for at, (_, verdict) in enumerate(acks):
            if not verdict.done():
                verdict.set_result(results[at].result if at < len(results) else None)

    async def ack(self, message: LeasedMessage) -> str | None:
        """Acks the message with the next pull, and returns the bridge's verdict. None: the ack waits for no pull, or
        its pull failed, so the caller acks the message itself."""
        if not self._follows or not self._arrived.empty() or len(self.acks) == _MOST:
            return None
        verdict: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self.acks.append((message, verdict))
        self._wake.set()
        return await verdict
