"""Publishes released copies to the exchanges of other applications.

RabbitMQ closes a channel after a publish to a missing exchange. So these messages use separate channels, and each burst
has messages for one exchange only. Then a missing exchange fails no message for another exchange.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bridge.broker.client.publisher import Outgoing, Publisher
from bridge.model.errors import BrokerUnavailable, ExchangeRefused, Unroutable
from topology.names import Names


class TargetPublisher:
    def __init__(self, names: Names, publisher: Publisher) -> None:
        """`publisher`: publishes to exchanges of other applications (its `to_others` is True)."""
        self._names = names
        self._publisher = publisher

    async def publish(self, messages: Sequence[Outgoing]) -> list[BrokerUnavailable | None]:
        """Publishes all messages. Returns for each message None if it is confirmed, or the error. `Unroutable`: no
        queue has the message, and each new try fails until somebody changes an exchange, a binding or a right."""
        errors: list[BrokerUnavailable | None] = [None] * len(messages)
        by_exchange: dict[str, list[int]] = {}
        for at, message in enumerate(messages):
            by_exchange.setdefault(message.exchange, []).append(at)

        async def publish(exchange: str, indexes: list[int]) -> None:
            published = await self._publish(exchange, [messages[at] for at in indexes])
            for at, error in zip(indexes, published, strict=True):
                errors[at] = error

        await asyncio.gather(*(publish(exchange, indexes) for exchange, indexes in by_exchange.items()))
        return errors

    async def _publish(self, exchange: str, messages: list[Outgoing]) -> list[BrokerUnavailable | None]:
        if not exchange or self._names.owns_exchange(exchange):
            # Any client may write a target into a header. A message with such a target would come back for ever.
            why = Unroutable(f"{exchange!r} can't be a target: it is the default exchange, or one of the bridge's own")
            return [why] * len(messages)
        errors = await self._publisher.publish(messages)
        refused = [at for at, error in enumerate(errors) if isinstance(error, ExchangeRefused) and not error.missing]
        if len(messages) > 1:
            # The user may lack the right to one routing key alone.
            for at in refused:
                (errors[at],) = await self._publisher.publish([messages[at]])
        return errors
