"""Defines a message in the hands of a consumer, until it is settled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from delaybridge_client.consumer.acks import Acks
from delaybridge_client.consumer.lease import Lease
from delaybridge_client.consumer.reports import Reports
from delaybridge_client.consumer.terms import STOPPED, reason_of
from delaybridge_client.errors import Conflict, DelaybridgeError, NotFound
from delaybridge_client.operations import nack
from delaybridge_client.retries import is_temporary
from delaybridge_client.sender import Sender
from delaybridge_client.values.message import LeasedMessage


class Delivery:
    """A pulled message. Its lease is extended until it is settled: by `ack`, by `nack`, or by the end of a block.

    `async with delivery:` acks it at the end of the block, or nacks it if the block raised an error.
    """

    def __init__(
        self,
        message: LeasedMessage,
        lease: Lease,
        *,
        sender: Sender,
        acks: Acks,
        reports: Reports,
        on_settled: Callable[[Delivery], None],
    ) -> None:
        self.message = message
        self._lease = lease
        self._sender = sender
        self._acks = acks
        self._reports = reports
        self._on_settled = on_settled
        self._settling = False

    @property
    def topic(self) -> str:
        return self.message.topic

    @property
    def id(self) -> str:
        return self.message.id

    @property
    def body(self) -> Any:
        """The JSON value, text or bytes."""
        return self.message.body

    @property
    def attempts(self) -> int:
        """The deliveries so far, this one too."""
        return self.message.attempts

    @property
    def lease_lost(self) -> bool:
        """Whether the lease has ended: another consumer may have the message."""
        return self._lease.ended

    @property
    def settled(self) -> bool:
        return self._settling

    async def ack(self) -> bool:
        """Ends the message. False: its lease had ended before, so it is delivered again; that is reported too.

        While the bridge is away, this tries again until the lease has ended.

        Raises:
            DelaybridgeError: the bridge refused the call, such as for its token.
        """
        self._settling = True
        blocked = self._lease.blocked  # as soon as the loop runs again, so does the extension
        try:
            verdict = await self._insist()
        finally:
            self._settled()
        if verdict == "acked":
            self._reports.counts.acked += 1
            return True
        self._reports.late(self.message, f"{verdict}: {blocked}" if blocked else verdict)
        return False

    async def nack(self, *, delay: timedelta | None = None, reason: str | None = None) -> bool:
        """Gives the message back. It comes again after `delay`, else after the topic's back-off; without retries left
        it is dead. False: its lease had ended before.

        Raises:
            DelaybridgeError: the bridge refused the call, such as for its token.
        """
        self._settling = True
        message, blocked = self.message, self._lease.blocked
        try:
            await self._sender.call(
                nack(message.topic, message.id, receipt=message.receipt, delay=delay, reason=reason)
            )
        except (Conflict, NotFound) as error:
            self._reports.late(message, f"{error}: {blocked}" if blocked else str(error))
            return False
        except DelaybridgeError as error:
            if not is_temporary(error):
                raise
            # It comes again when its lease ends.
            self._reports.late(message, str(error))
            return False
        finally:
            self._settled()
        self._reports.counts.nacked += 1
        return True

    async def give_back(self) -> None:
        """Nacks the message at once, if it is not settled: another consumer may have it now."""
        if not self._settling:
            await self.nack(delay=timedelta(), reason=STOPPED)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._settling:
            return
        if error is None:
            await self.ack()
        elif isinstance(error, Exception):
            await self.nack(reason=reason_of(error))
        else:
            # The task is being cancelled. The call must not be, or the message would wait for the end of its lease.
            await asyncio.shield(self.give_back())

    async def _insist(self) -> str:
        """Acks until there is an answer, or until the lease has ended. Returns the verdict, or the last error."""
        failed = 0
        while True:
            try:
                return await self._acks.ack(self.message.receipt)
            except DelaybridgeError as error:
                if not is_temporary(error):
                    raise
                if self._lease.ended:
                    return str(error)
            failed += 1
            await asyncio.sleep(self._sender.settings.retries.pause_s(failed))

    def _settled(self) -> None:
        self._lease.release()
        self._on_settled(self)
