"""Declares, binds and deletes exchanges and queues."""

from __future__ import annotations

from typing import Final

from pamqp.base import Frame
from pamqp.commands import Exchange as ExchangeMethods
from pamqp.commands import Queue as QueueMethods

from tests.simulate.rabbitmq import queue_arguments
from tests.simulate.rabbitmq.errors import Refusal, failed, no_exchange, no_queue, not_modelled
from tests.simulate.rabbitmq.exchanges import TYPES, Binding, Destination, Exchange
from tests.simulate.rabbitmq.queues import Queue
from tests.simulate.rabbitmq.state import State
from tests.simulate.rabbitmq.tables import Table

_BEFORE_ARGUMENTS: Final[dict[str, tuple[int, int]]] = {
    "Exchange.Declare": (2, 1),
    "Exchange.Bind": (3, 1),
    "Exchange.Unbind": (3, 1),
    "Queue.Declare": (1, 1),
    "Queue.Bind": (3, 1),
    "Queue.Unbind": (3, 0),
    "Basic.Consume": (2, 1),
}
"""How many short texts, and how many octets of flags, come before the arguments of a method."""


def arguments_of(method: Frame, payload: bytes) -> Table:
    """Returns the arguments of a method with their AMQP types. `payload`: of the method's frame."""
    shorts, flags = _BEFORE_ARGUMENTS[method.name]
    at = 6  # behind the numbers of class and method, and the ticket
    for _ in range(shorts):
        at += 1 + payload[at]
    return Table.parse(payload[at + flags :])


class Declarations:
    """The declares of one connection. `owner`: the connection, to which exclusive queues belong."""

    def __init__(self, state: State, owner: object) -> None:
        self._state = state
        self._owner = owner

    # Exchanges

    def declare_exchange(self, method: ExchangeMethods.Declare, arguments: Table) -> None:
        """Raises Refusal: RabbitMQ refuses it."""
        name, existing = method.exchange, self._state.exchanges.get(method.exchange)
        if method.passive:
            if existing is None and name:
                raise no_exchange(name)
            return
        if not name:
            raise Refusal(403, "operation not permitted on the default exchange")
        if method.exchange_type not in TYPES:
            raise Refusal(self._state.rules.unknown_type, f"unknown exchange type '{method.exchange_type}'")
        if existing is None:
            if name.startswith("amq."):
                raise Refusal(403, f"exchange name '{name}' contains reserved prefix 'amq.*'")
            if unknown := {*arguments.entries} - {"alternate-exchange"}:
                raise not_modelled(f"the exchange arguments {', '.join(sorted(unknown))}")
            self._state.exchanges.add(
                Exchange(
                    name,
                    method.exchange_type,
                    durable=bool(method.durable),
                    auto_delete=bool(method.auto_delete),
                    internal=bool(method.internal),
                    arguments=arguments,
                )
            )
            return
        pairs = (
            ("type", existing.type, method.exchange_type),
            ("durable", existing.durable, bool(method.durable)),
            ("auto_delete", existing.auto_delete, bool(method.auto_delete)),
            ("internal", existing.internal, bool(method.internal)),
        )
        for what, found, given in pairs:
            queue_arguments.assert_same("exchange", name, what, found=found, given=given)
        queue_arguments.assert_equivalent("exchange", name, existing.arguments, arguments)

    def delete_exchange(self, method: ExchangeMethods.Delete) -> None:
        """Raises Refusal."""
        name = method.exchange
        if not name:
            raise Refusal(403, "operation not permitted on the default exchange")
        if name.startswith("amq."):
            raise Refusal(403, f"exchange name '{name}' contains reserved prefix 'amq.*'")
        exchange = self._state.exchanges.get(name)
        if exchange is None:
            return
        if method.if_unused and exchange.bindings:
            raise failed(f"exchange '{name}' in vhost '/' in use")
        self._state.exchanges.remove(exchange)

    def bind(self, source: str, destination: Destination, key: str, arguments: Table) -> None:
        """Raises Refusal."""
        exchange = self._bound(source, destination)
        exchange.bind(Binding(destination, key, tuple(sorted(arguments.entries.items()))))

    def unbind(self, source: str, destination: Destination, key: str, arguments: Table) -> None:
        """Raises Refusal. A missing binding, exchange or queue is none to RabbitMQ (`absent_errs_only` in
        rabbit_binding.erl)."""
        kind, name = destination
        known = self._state.queues if kind == "queue" else self._state.exchanges
        if known.get(name) is None or (source and self._state.exchanges.get(source) is None):
            return
        exchange = self._bound(source, destination)
        if exchange.unbind(Binding(destination, key, tuple(sorted(arguments.entries.items())))):
            self._state.exchanges.end_unused(exchange)

    def _bound(self, source: str, destination: Destination) -> Exchange:
        kind, name = destination
        if kind == "queue":
            self.queue(name)
        elif self._state.exchanges.get(name) is None:
            raise no_exchange(name)
        if not source:
            raise Refusal(403, "operation not permitted on the default exchange")
        exchange = self._state.exchanges.get(source)
        if exchange is None:
            raise no_exchange(source)
        return exchange

    # Queues

    def queue(self, name: str) -> Queue:
        """Returns a queue that this connection may use. Raises Refusal."""
        queue = self._state.queues.get(name)
        if queue is None:
            raise no_queue(name)
        if queue.owner not in (None, self._owner):
            raise _locked(name)
        return queue

    def declare_queue(self, method: QueueMethods.Declare, arguments: Table) -> Queue:
        """Raises Refusal."""
        name = method.queue or self._state.new_name("amq.gen-")
        existing = self._state.queues.get(name)
        if method.passive or existing is not None:
            queue = self.queue(name)
            if not method.passive:
                self._assert_same(queue, method, arguments)
            queue.used()
            return queue
        if method.queue and name.startswith("amq."):
            raise Refusal(403, f"queue name '{name}' contains reserved prefix 'amq.*'")
        durable, exclusive, auto_delete = bool(method.durable), bool(method.exclusive), bool(method.auto_delete)
        if exclusive and arguments.value("x-queue-type") == "stream":
            raise failed(f"invalid property 'exclusive-owner' for queue '{name}' in vhost '/'")
        settings = queue_arguments.read(name, arguments, self._state.rules)
        if settings.quorum:
            for given, what in (
                (auto_delete, "auto-delete"),
                (exclusive, "exclusive-owner"),
                (not durable, "non-durable"),
            ):
                if given:
                    raise failed(f"invalid property '{what}' for queue '{name}' in vhost '/'")
        elif not durable and not exclusive and self._state.rules.denies_deprecated:
            raise not_modelled("a transient queue that several connections share, which RabbitMQ 4.3 denies")
        queue = Queue(
            self._state,
            name,
            durable=durable,
            auto_delete=auto_delete,
            owner=self._owner if exclusive else None,
            arguments=arguments,
            settings=settings,
        )
        self._state.queues[name] = queue
        return queue

    def _assert_same(self, queue: Queue, method: QueueMethods.Declare, arguments: Table) -> None:
        if (queue.owner is not None) != bool(method.exclusive):
            raise _locked(queue.name)
        for what, found, given in (
            ("durable", queue.durable, bool(method.durable)),
            ("auto_delete", queue.auto_delete, bool(method.auto_delete)),
        ):
            queue_arguments.assert_same("queue", queue.name, what, found=found, given=given)
        queue_arguments.assert_equivalent("queue", queue.name, queue.arguments, arguments)

    def delete_queue(self, method: QueueMethods.Delete) -> int:
        """Returns how many messages were ready. Raises Refusal."""
        if method.queue not in self._state.queues:
            return 0
        queue = self.queue(method.queue)
        if queue.settings.quorum and (method.if_unused or method.if_empty):
            raise not_modelled("a delete of a quorum queue with a condition, which RabbitMQ refuses")
        if method.if_unused and queue.consumers:
            raise failed(f"queue '{queue.name}' in vhost '/' in use")
        if method.if_empty and queue.depth:
            raise failed(f"queue '{queue.name}' in vhost '/' is not empty")
        depth = queue.depth
        self._state.delete_queue(queue)
        return depth

    def connection_ended(self) -> None:
        """Deletes the exclusive queues."""
        for queue in [*self._state.queues.values()]:
            if queue.owner is self._owner:
                self._state.delete_queue(queue)


def _locked(name: str) -> Refusal:
    return Refusal(
        405,
        f"cannot obtain exclusive access to locked queue '{name}' in vhost '/'. It could be originally declared on "
        "another connection or the exclusive property value does not match that of the original declaration.",
    )
