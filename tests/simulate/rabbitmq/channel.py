"""Answers the methods of one channel."""

from __future__ import annotations

from collections import deque
from copy import copy
from functools import partial
from typing import Protocol, TypeVar

from pamqp import commands
from pamqp.base import Frame
from pamqp.commands import Basic, Confirm, Exchange, Queue

from tests.simulate.rabbitmq import queues
from tests.simulate.rabbitmq.confirms import Confirms
from tests.simulate.rabbitmq.declarations import Declarations, arguments_of
from tests.simulate.rabbitmq.deliveries import Consumer, Deliveries
from tests.simulate.rabbitmq.errors import Refusal, failed, no_exchange, not_modelled
from tests.simulate.rabbitmq.message import published
from tests.simulate.rabbitmq.state import State
from tests.simulate.rabbitmq.tables import Properties
from tests.simulate.rabbitmq.turn import Turn

OfQueue = TypeVar("OfQueue", Queue.Declare, Queue.Delete)

_NO_ROUTE = 312
Content = tuple[Properties, bytes]


class Owner(Protocol):
    """The connection of a channel. `capabilities`: what the client can do."""

    user: str
    capabilities: frozenset[str]
    declarations: Declarations

    def send(self, number: int, method: Frame) -> None: ...

    def send_content(self, number: int, method: Frame, properties: Properties, body: bytes) -> None: ...

    def channel_failed(self, channel: Channel, refusal: Refusal) -> None:
        """Closes the channel, or the connection if the refusal is hard."""
        ...


class Channel:
    """An open channel. While a queue that it needs has no leader, later methods wait. If such a queue is deleted, the
    connection ends."""

    def __init__(self, number: int, connection: Owner, state: State, turn: Turn) -> None:
        self.number = number
        self._connection = connection
        self._state = state
        self._declarations = connection.declarations
        self._confirms = Confirms(self.send, state.random, lambda: turn.at_end(self._flush))
        self.deliveries = Deliveries(self, state, tells_of_cancels="consumer_cancel_notify" in connection.capabilities)
        self._last_queue = ""
        self._known: set[queues.Queue] = set()
        self._waits = self._is_ended = False
        self._later: deque[tuple[Frame, bytes, Content | None]] = deque()

    # Life

    def send(self, method: Frame) -> None:
        if not self._is_ended:
            self._connection.send(self.number, method)

    def send_content(self, method: Frame, properties: Properties, body: bytes) -> None:
        self._connection.send_content(self.number, method, properties, body)

    def fail(self, refusal: Refusal) -> None:
        self._connection.channel_failed(self, refusal)

    def end(self) -> None:
        """Ends the channel: its queues get back all that is unacknowledged."""
        self._confirms.flush()
        self._is_ended = True
        self._later.clear()
        self.deliveries.end()

    def _flush(self) -> None:
        if not self._is_ended:
            self._confirms.flush()

    # Methods

    def take(self, method: Frame, payload: bytes, content: Content | None = None) -> None:
        """Takes a method. `payload`: of its frame. `content`: of a publish."""
        if self._waits:
            self._later.append((method, payload, content))
            return
        try:
            self._answer(method, payload, content)
        except Refusal as refusal:
            self.fail(refusal)

    def _wait_for(self, queue: queues.Queue, method: Frame, payload: bytes) -> bool:
        """Whether the queue has no leader. The method is then taken again when it has one."""
        if queue.leader.is_there:
            self._known.add(queue)
            return False
        self._later.appendleft((method, payload, None))
        self._pause(queue)
        return True

    def _pause(self, queue: queues.Queue) -> None:
        self._waits = True
        queue.leader.do(lambda: self._go_on(queue))

    def _go_on(self, queue: queues.Queue) -> None:
        self._waits = False
        if queue.is_gone and not self._is_ended:
            self.fail(Refusal(541, "the queue was deleted without a leader"))
        while self._later and not self._waits and not self._is_ended:
            self.take(*self._later.popleft())

    def _answer(self, method: Frame, payload: bytes, content: Content | None) -> None:
        match method:
            case Basic.Publish() if content is not None:
                self._publish(method, *content)
            case Basic.Ack() | Basic.Nack() | Basic.Reject():
                self._settle(method)
            case Basic.Get():
                self._get(method, payload)
            case Basic.Consume():
                self._consume(method, payload)
            case Basic.Cancel():
                self.deliveries.cancel(method.consumer_tag or "")
                if not method.nowait:
                    self.send(Basic.CancelOk(consumer_tag=method.consumer_tag))
            case Basic.CancelOk():
                pass  # of a client that agrees to the end of its consumer
            case Basic.Qos():
                self._limit(method)
            case Confirm.Select():
                self._confirms.select()
                self.send(Confirm.SelectOk())
            case Exchange.Declare() | Exchange.Delete() | Exchange.Bind() | Exchange.Unbind():
                self._about_exchange(method, payload)
            case Queue.Declare() | Queue.Delete() | Queue.Purge() | Queue.Bind() | Queue.Unbind():
                self._about_queue(method, payload)
            case _:
                raise _unexpected(method)

    def _publish(self, method: Basic.Publish, properties: Properties, body: bytes) -> None:
        rules = self._state.rules
        if method.immediate:
            raise Refusal(540, "immediate=true")
        if len(body) > rules.largest_bytes:
            raise failed(f"message size {len(body)} is larger than configured max size {rules.largest_bytes}")
        exchange = self._state.exchanges.get(method.exchange)
        if exchange is None and method.exchange:
            raise no_exchange(method.exchange)
        if exchange is not None and exchange.internal:
            raise Refusal(403, f"cannot publish to internal exchange '{method.exchange}' in vhost '/'")
        message = published(method.exchange, method.routing_key, properties, body, user=self._connection.user)
        targets = self._state.route(message)
        if not targets and method.mandatory:
            self.send_content(
                Basic.Return(
                    reply_code=_NO_ROUTE,
                    reply_text="NO_ROUTE",
                    exchange=method.exchange,
                    routing_key=method.routing_key,
                ),
                message.properties,
                body,
            )
        answered = self._confirms.begin(len(targets))
        for queue in targets:
            queue.enqueue(message, partial(answered, queue.name))
            if queue.leader.is_there:
                self._known.add(queue)
            elif queue not in self._known:
                # On a new channel RabbitMQ waits for the leader before it takes the next method.
                self._known.add(queue)
                self._pause(queue)

    # Consuming

    def _settle(self, method: Basic.Ack | Basic.Nack | Basic.Reject) -> None:
        tag = method.delivery_tag or 0
        match method:
            case Basic.Ack():
                self.deliveries.ack(tag, multiple=bool(method.multiple))
            case Basic.Nack():
                multiple, requeue = bool(method.multiple), bool(method.requeue)
                counts = self._state.rules.nack_counts
                self.deliveries.reject(tag, multiple=multiple, requeue=requeue, failed=counts)
            case Basic.Reject():
                self.deliveries.reject(tag, multiple=False, requeue=bool(method.requeue), failed=True)

    def _get(self, method: Basic.Get, payload: bytes) -> None:
        queue = self._queue(method.queue)
        if queue.settings.single_active:
            raise not_modelled("a get from a queue with a single active consumer")
        if not self._wait_for(queue, method, payload):
            self.deliveries.get(queue, no_ack=bool(method.no_ack))

    def _consume(self, method: Basic.Consume, payload: bytes) -> None:
        queue, tag = self._queue(method.queue), method.consumer_tag or self._state.new_name("amq.ctag-")
        if tag in self.deliveries.consumers:
            raise Refusal(530, f"attempt to reuse consumer tag '{tag}'")
        if arguments_of(method, payload).entries or method.no_local:
            raise not_modelled("arguments of a consumer")
        if method.exclusive and queue.settings.quorum:
            raise not_modelled("an exclusive consumer of a quorum queue")
        if queue.exclusive_consumer or (method.exclusive and queue.consumers):
            raise Refusal(403, f"queue '{queue.name}' in vhost '/' in exclusive use")
        if queue.settings.quorum and self.deliveries.most:
            raise Refusal(540, f"queue '{queue.name}' in vhost '/' does not support global qos")
        if self._wait_for(queue, method, payload):
            return
        if not method.nowait:
            self.send(Basic.ConsumeOk(consumer_tag=tag))
        queue.exclusive_consumer = bool(method.exclusive)
        self.deliveries.begin(
            Consumer(self.deliveries, queue, tag, no_ack=bool(method.no_ack), prefetch=self.deliveries.prefetch)
        )

    def _limit(self, method: Basic.Qos) -> None:
        if method.prefetch_size:
            raise Refusal(540, f"prefetch_size!=0 ({method.prefetch_size})")
        if not method.global_:
            self.deliveries.prefetch = method.prefetch_count or 0
        elif self._state.rules.denies_deprecated:
            raise not_modelled("global QoS, which RabbitMQ 4.3 denies")
        else:
            self.deliveries.most = method.prefetch_count or 0
        self.send(Basic.QosOk())

    # Declaring

    def _queue(self, name: str) -> queues.Queue:
        """Returns the queue, or the one that was declared last on this channel if the name is empty."""
        return self._declarations.queue(name or self._last_queue)

    def _about_exchange(
        self, method: Exchange.Declare | Exchange.Delete | Exchange.Bind | Exchange.Unbind, payload: bytes
    ) -> None:
        answer: Frame
        match method:
            case Exchange.Declare():
                self._declarations.declare_exchange(method, arguments_of(method, payload))
                answer = Exchange.DeclareOk()
            case Exchange.Delete():
                self._declarations.delete_exchange(method)
                answer = Exchange.DeleteOk()
            case Exchange.Bind() | Exchange.Unbind():
                change = self._declarations.bind if isinstance(method, Exchange.Bind) else self._declarations.unbind
                arguments = arguments_of(method, payload)
                change(method.source, ("exchange", method.destination), method.routing_key, arguments)
                answer = Exchange.BindOk() if isinstance(method, Exchange.Bind) else Exchange.UnbindOk()
        if not method.nowait:
            self.send(answer)

    def _about_queue(
        self, method: Queue.Declare | Queue.Delete | Queue.Purge | Queue.Bind | Queue.Unbind, payload: bytes
    ) -> None:
        answer: Frame
        match method:
            case Queue.Declare():
                if method.passive and not method.queue:
                    method = _of(self._last_queue, method)
                queue = self._declarations.declare_queue(method, arguments_of(method, payload))
                self._last_queue = queue.name
                answer = Queue.DeclareOk(queue=queue.name, message_count=queue.depth, consumer_count=queue.consumers)
            case Queue.Delete():
                deleted = method if method.queue else _of(self._last_queue, method)
                answer = Queue.DeleteOk(message_count=self._declarations.delete_queue(deleted))
            case Queue.Purge():
                answer = Queue.PurgeOk(message_count=self._queue(method.queue).purge())
            case Queue.Bind() | Queue.Unbind():
                change = self._declarations.bind if isinstance(method, Queue.Bind) else self._declarations.unbind
                name = self._queue(method.queue).name if not method.queue else method.queue
                change(method.exchange, ("queue", name), method.routing_key, arguments_of(method, payload))
                answer = Queue.BindOk() if isinstance(method, Queue.Bind) else Queue.UnbindOk()
        if isinstance(method, Queue.Unbind) or not method.nowait:
            self.send(answer)


def _of(queue: str, method: OfQueue) -> OfQueue:
    """Returns the method with the name of its queue."""
    named = copy(method)
    named.queue = queue
    return named


def _unexpected(method: Frame) -> Refusal:
    if isinstance(method, commands.Channel.Open):
        return Refusal(504, "second 'channel.open' seen")
    return not_modelled(method.name)
