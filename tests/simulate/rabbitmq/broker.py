"""Is the simulated RabbitMQ: it opens connections, keeps the time, and makes faults."""

from __future__ import annotations

from random import Random

from tests.simulate.rabbitmq.connection import Connection
from tests.simulate.rabbitmq.errors import Refusal
from tests.simulate.rabbitmq.message import Message
from tests.simulate.rabbitmq.queues import Queue
from tests.simulate.rabbitmq.state import State
from tests.simulate.rabbitmq.turn import Turn
from tests.simulate.rabbitmq.versions import RULES


class Broker:
    """A node of RabbitMQ with the virtual host `/` and the user guest. It does nothing by itself but in `advance`.

    `alarm`: why publishers are blocked; None: they are not. `state`: its objects, and the settings of the node, which
    a test may change before it connects.
    """

    def __init__(self, *, version: str = "3.10", random: Random) -> None:
        """`version`: "3.10", "4.0" or "4.3". `random`: decides the order of confirms, and makes names."""
        self.state = State(RULES[version], random)
        self.alarm: str | None = None
        self._turn = Turn()
        self._connections: dict[Connection, None] = {}

    def connect(self) -> Connection:
        """Takes a new TCP connection."""
        connection = Connection(self, self.state, self._turn)
        self._connections[connection] = None
        return connection

    def forget(self, connection: Connection) -> None:
        """Removes a connection that has ended."""
        self._connections.pop(connection, None)

    # Time

    def advance(self, now_ms: float) -> None:
        """Sets the clock to `now_ms`, in Unix ms, and does all that is due until then, in order.

        Raises:
            ValueError: `now_ms` is before the clock.
        """
        with self._turn:
            self.state.clock.advance(now_ms)

    def next_moment_ms(self) -> float | None:
        """Returns the earliest moment at which something happens by itself; None: nothing will."""
        return self.state.clock.next_moment_ms()

    # Faults

    def block(self, reason: str = "low on memory") -> None:
        """Raises an alarm: each connection is blocked behind the header of its next publish."""
        self.alarm = reason

    def unblock(self) -> None:
        """Ends the alarm."""
        self.alarm = None
        with self._turn:
            for connection in [*self._connections]:
                connection.unblock()

    def close_all(self, reason: str = "Closed via management plugin") -> None:
        """Closes all connections with a reason."""
        with self._turn:
            for connection in [*self._connections]:
                connection.fail(Refusal(320, reason))

    def lose_leader(self, queue: str) -> None:
        """Makes a queue unavailable: it confirms and delivers nothing until `elect_leader`."""
        self._queue(queue).leader.lose()

    def elect_leader(self, queue: str) -> None:
        """Makes a queue available again. It does all that it was asked for meanwhile."""
        with self._turn:
            self._queue(queue).elect_leader()

    def refuse(self, queue: str, *, refuses: bool = True) -> None:
        """Lets a queue refuse all publishes, with a nack, until `refuses` is False."""
        self._queue(queue).refuses = refuses

    def restart(self, *, young_ms: float = 0) -> list[str]:
        """Ends the node as a kill does, and starts it again. Transient objects and messages are gone.

        `young_ms`: quorum queues that were declared within this time are not persisted yet. On 4.3 they come back
        empty, on earlier versions without a leader. Returns the names of these queues.
        """
        state, forgotten = self.state, list[str]()
        with self._turn:
            for connection in [*self._connections]:
                connection.lost()
            self.alarm = None
            for queue in [*state.queues.values()]:
                if not queue.durable:
                    state.delete_queue(queue)
                elif queue.settings.quorum and state.clock.now_ms - queue.declared_ms < young_ms:
                    queue.forget_all()
                    forgotten.append(queue.name)
                    if not state.rules.denies_deprecated:
                        queue.leader.lose()
                else:
                    queue.forget_transient()
            for exchange in state.exchanges:
                if not exchange.durable:
                    state.exchanges.remove(exchange)
        return forgotten

    def cancel(self, queue: str) -> None:
        """Ends all consumers of a queue, and tells them, as after some changes of its leader."""
        with self._turn:
            self._queue(queue).cancel_takers()

    def time_out(self, limit_ms: float) -> None:
        """Closes each channel that has had a delivery unacknowledged for so long."""
        with self._turn:
            for connection in [*self._connections]:
                for deliveries in connection.deliveries():
                    deliveries.time_out(limit_ms)

    def unacknowledged(self, queue: str) -> list[Message]:
        """Returns the messages of a queue that its consumers have not acknowledged."""
        found = self._queue(queue)
        return [one for connection in self._connections for each in connection.deliveries() for one in each.of(found)]

    def delete(self, queue: str) -> None:
        """Deletes a queue, as an operator does."""
        with self._turn:
            self.state.delete_queue(self._queue(queue))

    def _queue(self, name: str) -> Queue:
        return self.state.queues[name]
