"""Defines a message in the hands of a consumer, until it is settled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from delaybridge_client.consumer.acks import Acks
from delaybridge_client.consumer.lease import Lease
from delaybridge_client.consumer.next_pull import NextPull
from delaybridge_client.consumer.reports import Reports
from delaybridge_client.consumer.terms import STOPPED, reason_of
from delaybridge_client.errors import Conflict, DelaybridgeError, NotFound
from delaybridge_client.operations import nack
from delaybridge_client.retries import is_temporary
from delaybridge_client.sender import Sender
from delaybridge_client.values.message import LeasedMessage


class Delivery:
    """A pulled message. The consumer extends its lease until it is settled: by `ack`, by `nack`, or by a block's end.

    `async with delivery:` acks the message at the end of the block, or nacks it if the block raised an error. If a pull
    follows at once, it takes this ack along.
    """

    def __init__(
        self,
        message: LeasedMessage,
        lease: Lease,
        *,
        sender: Sender,
        acks: Acks,
        next_pull: NextPull,
        reports: Reports,
        on_settled: Callable[[Delivery], None],
    ) -> None:
        self.message = message
        self._lease = lease
        self._sender = sender
        self._acks = acks
        self._next_pull = next_pull
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
        """The message's body: a JSON value, text or bytes."""
        return self.message.body

    @property
    def attempts(self) -> int:
        """The number of the message's deliveries so far, with this one."""
        return self.message.attempts

    @property
    def lease_lost(self) -> bool:
        """Whether the lease has ended: another consumer may have the message."""
        return self._lease.ended

    @property
    def settled(self) -> bool:
        return self._settling

    async def ack(self) -> bool:
        """Acknowledges the message, which ends it. Returns False if its lease had ended before: the message is
        delivered again, and `on_late` gets a report.

        While the bridge is away, this method tries again until the lease has ended.

        Raises:
            DelaybridgeError: the bridge refused the call, for example because of the token.
        """
        return await self._ack(with_next_pull=False)

    async def _ack(self, *, with_next_pull: bool) -> bool:
        self._settling = True
        blocked = self._lease.blocked  # as soon as the loop runs again, so does the extension
        try:
            with_pull = await self._ack_with_next_pull() if with_next_pull else None
            verdict = with_pull or await self._insist()
        finally:
            self._settled()
        if verdict == "acked":
            self._reports.counts.acked += 1
            return True
        self._reports.late(self.message, f"{verdict}: {blocked}" if blocked else verdict)
        return False

    async def _ack_with_next_pull(self) -> str | None:
        try:
            return await self._next_pull.ack(self.message)
        except asyncio.CancelledError:
            # The pull may be cancelled too, but the handler has succeeded. A repeated ack does no harm.
            await asyncio.wait((self._acks.start(self.message.receipt),))
            raise

    async def nack(self, *, delay: timedelta | None = None, reason: str | None = None) -> bool:
        """Gives the message back. It is delivered again after `delay`, or by default after the topic's back-off.
        Without retries left it becomes a dead letter.

        Returns False if its lease had ended before, or the bridge was away: the message is delivered again when its
        lease ends. In both cases `on_late` gets a report.

        Raises:
            DelaybridgeError: the bridge refused the call, for example because of the token.
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
            # The message is delivered again when its lease ends.
            self._reports.late(message, str(error))
            return False
        finally:
            self._settled()
        self._reports.counts.nacked += 1
        return True

    async def give_back(self) -> None:
        """Nacks the message without a delay, if it is not settled, so that another consumer may have it now."""
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
            await self._ack(with_next_pull=True)
        elif isinstance(error, Exception):
            await self.nack(reason=reason_of(error))
        else:
            # The task is being cancelled, but the call must not be: the message would wait for the end of its lease.
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
