"""The simulated broker's faults and clock, without a socket: what no contract test can ask of a shared real node."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from pamqp import commands, frame
from pamqp.base import Frame
from pamqp.body import ContentBody
from pamqp.commands import Basic
from pamqp.header import ContentHeader

from tests.simulate.rabbitmq import Broker

QUORUM = {"x-queue-type": "quorum"}
START_MS = 1_700_000_000_000.0


class Client:
    """A client with one channel with confirms. `names`: the methods that the broker has sent."""

    def __init__(self, broker: Broker) -> None:
        self.connection = broker.connect()
        self.connection.received(b"AMQP\x00\x00\x09\x01")
        login: Any = {"capabilities": {"connection.blocked": True, "consumer_cancel_notify": True}}
        self.send(commands.Connection.StartOk(login, "PLAIN", "\0guest\0guest", "en_US"), 0)
        self.send(commands.Connection.TuneOk(2_047, 131_072, 0), 0)
        self.send(commands.Connection.Open("/"), 0)
        self.send(commands.Channel.Open())
        self.send(commands.Confirm.Select())
        self.came()

    def send(self, method: Frame, number: int = 1) -> None:
        self.connection.received(frame.marshal(method, number))

    def declare(self, queue: str, **arguments: Any) -> None:
        named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
        self.send(commands.Queue.Declare(queue=queue, durable=True, arguments={**QUORUM, **named}))

    def publish(self, queue: str, body: bytes = b"", **properties: Any) -> None:
        header = ContentHeader(0, len(body), Basic.Properties(**{"delivery_mode": 2, **properties}))
        data = frame.marshal(Basic.Publish(routing_key=queue), 1) + frame.marshal(header, 1)
        self.connection.received(data + (frame.marshal(ContentBody(body), 1) if body else b""))

    def came(self) -> list[Any]:
        """Returns the methods and bodies that have come, without content headers."""
        data, found = self.connection.output(), list[Any]()
        while data:
            size, _, one = frame.unmarshal(data)
            data = data[size:]
            if isinstance(one, ContentBody):
                found.append(one.value)
            elif not isinstance(one, ContentHeader):
                found.append(one)
        return found

    def names(self) -> list[str]:
        return [one.name for one in self.came() if isinstance(one, Frame)]


@pytest.fixture(params=["3.10", "4.0", "4.3"])
def broker(request: pytest.FixtureRequest) -> Broker:
    broker = Broker(version=request.param, random=Random(0))
    broker.advance(START_MS)
    return broker


@pytest.fixture
def client(broker: Broker) -> Client:
    client = Client(broker)
    client.declare("q")
    client.came()
    return client


def test_alarm_blocks_behind_the_header_of_the_first_publish(broker: Broker, client: Client) -> None:
    broker.block("low on disk")
    client.send(Basic.Get(queue="q"))
    assert client.names() == ["Basic.GetEmpty"]  # a connection that does not publish goes on

    client.publish("q")
    (blocked, confirm) = client.came()
    assert (blocked.reason, confirm.name) == ("low on disk", "Basic.Ack")  # an empty message is complete
    client.publish("q", b"body")
    client.send(Basic.Get(queue="q"))
    assert client.names() == []

    broker.unblock()
    assert client.names() == ["Connection.Unblocked", "Basic.GetOk", "Basic.Ack"]


def test_alarm_holds_the_body_of_the_first_publish(broker: Broker, client: Client) -> None:
    broker.block()
    client.publish("q", b"body")
    assert client.names() == ["Connection.Blocked"]

    broker.unblock()
    assert client.names() == ["Connection.Unblocked", "Basic.Ack"]


def test_queue_without_a_leader_confirms_and_delivers_later(broker: Broker, client: Client) -> None:
    client.publish("q", b"first")
    client.send(Basic.Consume(queue="q", consumer_tag="c"))
    client.came()
    broker.lose_leader("q")
    client.publish("q", b"second")
    assert client.came() == []

    broker.elect_leader("q")
    assert client.names() == ["Basic.Deliver", "Basic.Ack"]


def test_new_channel_waits_for_the_leader_of_its_queue(broker: Broker, client: Client) -> None:
    broker.lose_leader("q")
    other = Client(broker)
    other.publish("q")
    other.send(Basic.Qos(prefetch_count=1))
    assert other.came() == []

    broker.elect_leader("q")
    assert other.names() == ["Basic.QosOk", "Basic.Ack"]


def test_delete_of_a_queue_without_a_leader_closes_connections_that_wait_for_it(broker: Broker, client: Client) -> None:
    broker.lose_leader("q")
    client.publish("q")
    broker.delete("q")

    (close,) = client.came()
    assert (close.name, close.reply_code) == ("Connection.Close", 541)


def test_consumer_that_the_broker_ends_keeps_its_deliveries(broker: Broker, client: Client) -> None:
    client.publish("q", b"kept")
    client.send(Basic.Consume(queue="q", consumer_tag="c"))
    client.came()
    broker.cancel("q")
    client.publish("q", b"second")

    assert client.names() == ["Basic.Cancel", "Basic.Ack"]
    assert [message.body for message in broker.unacknowledged("q")] == [b"kept"]
    assert [message.body for message in broker.state.queues["q"].messages()] == [b"second"]


def test_deliveries_time_out_when_asked_to(broker: Broker, client: Client) -> None:
    client.publish("q")
    client.send(Basic.Get(queue="q"))
    client.came()
    broker.advance(START_MS + 99)
    broker.time_out(100)
    assert client.came() == []

    broker.time_out(99)
    assert client.names() == ["Channel.Close"]


def test_refused_publish_is_nacked(broker: Broker, client: Client) -> None:
    broker.refuse("q")
    client.publish("q")
    broker.refuse("q", refuses=False)
    client.publish("q")

    assert client.names() == ["Basic.Nack", "Basic.Ack"]


def test_restart_keeps_quorum_queues_and_requeues_their_deliveries(broker: Broker, client: Client) -> None:
    client.publish("q", b"kept")
    client.send(Basic.Get(queue="q"))
    broker.restart()
    assert client.connection.closed

    again = Client(broker)
    again.send(Basic.Get(queue="q"))
    got, body = again.came()
    assert (got.redelivered, body) == (True, b"kept")


def test_restart_forgets_young_queues(broker: Broker, client: Client) -> None:
    client.publish("q", b"lost")
    forgotten = broker.restart(young_ms=1_000)
    assert forgotten == ["q"]

    again = Client(broker)
    again.send(Basic.Get(queue="q"))
    assert again.names() == (["Basic.GetEmpty"] if broker.state.rules.denies_deprecated else [])


def test_dead_letters_that_nobody_takes_fill_the_window(broker: Broker, client: Client) -> None:
    """Behind 32 of them a routable one waits: so each dead letter of the wheel must be routable."""
    strategy = {"dead_letter_strategy": "at-least-once", "overflow": "reject-publish"}
    client.declare("slot", message_ttl=10, dead_letter_exchange="amq.direct", **strategy)
    client.send(commands.Queue.Bind(queue="q", exchange="amq.direct", routing_key="slot"))
    client.send(commands.Queue.Unbind(queue="q", exchange="amq.direct", routing_key="slot"))
    for _ in range(32):
        client.publish("slot")
    broker.advance(START_MS + 10)
    client.send(commands.Queue.Bind(queue="q", exchange="amq.direct", routing_key="slot"))
    client.publish("slot")
    broker.advance(START_MS + 1_000)
    client.came()
    client.send(Basic.Get(queue="q"))
    assert client.names() == ["Basic.GetEmpty"]

    broker.advance(START_MS + 181_000)
    client.send(commands.Queue.Declare(queue="q", passive=True))
    (declared,) = client.came()
    assert declared.message_count == 33


def test_delivery_that_is_held_too_long_closes_its_channel(broker: Broker, client: Client) -> None:
    client.publish("q")
    client.send(Basic.Get(queue="q"))
    client.came()
    broker.advance(START_MS + 1_799_999)
    assert client.came() == []

    broker.advance(START_MS + 1_800_000)
    (closed,) = client.came()
    assert (closed.name, closed.reply_code) == ("Channel.Close", 406)
    assert "delivery acknowledgement on channel 1 timed out. Timeout value used: 1800000 ms" in closed.reply_text


def test_all_connections_are_closed_with_a_reason(broker: Broker, client: Client) -> None:
    broker.close_all("Closed via management plugin")

    (close,) = client.came()
    assert (close.reply_code, close.reply_text) == (320, "CONNECTION_FORCED - Closed via management plugin")
    assert not client.connection.closed
    client.send(commands.Connection.CloseOk(), 0)
    assert client.connection.closed


def test_hops_of_a_long_step_happen_at_their_moments(broker: Broker, client: Client) -> None:
    client.declare("fast", message_ttl=300, dead_letter_exchange="", dead_letter_routing_key="q")
    client.declare("slow", message_ttl=5_000, dead_letter_exchange="", dead_letter_routing_key="fast")
    client.send(Basic.Consume(queue="q", consumer_tag="c", no_ack=True))
    client.publish("slow", b"late")
    client.came()

    assert broker.next_moment_ms() == START_MS + 5_000
    broker.advance(START_MS + 5_200)
    assert (client.came(), broker.next_moment_ms()) == ([], START_MS + 5_300)
    broker.advance(START_MS + 60_000)
    assert client.came()[1] == b"late"
    assert broker.next_moment_ms() is None


def test_same_seed_gives_the_same_bytes() -> None:
    def run(seed: int) -> bytes:
        broker = Broker(random=Random(seed))
        client = Client(broker)
        for at in range(8):
            client.declare(f"q{at}")
        client.came()
        body = b""
        for at in range(40):
            header = ContentHeader(0, 0, Basic.Properties())
            body += frame.marshal(Basic.Publish(routing_key=f"q{at % 8}"), 1) + frame.marshal(header, 1)
        client.connection.received(body)
        return client.connection.output()

    assert run(1) == run(1)
    assert len({run(seed) for seed in range(5)}) > 1  # confirms come in other orders


def test_wakeup_is_called_when_another_client_causes_output(broker: Broker, client: Client) -> None:
    client.send(Basic.Consume(queue="q", consumer_tag="c"))
    client.came()
    calls: list[int] = []
    client.connection.wakeup = lambda: calls.append(1)
    Client(broker).publish("q", b"for the other")

    assert calls == [1]
    assert client.came()[1] == b"for the other"


@pytest.mark.parametrize(
    "method", [commands.Tx.Select(), Basic.Recover(requeue=True), Basic.Consume(queue="q", arguments={"x-priority": 1})]
)
def test_what_is_not_modelled_is_refused(client: Client, method: Frame) -> None:
    client.send(method)

    (close,) = client.came()
    assert (close.name, close.reply_code) == ("Connection.Close", 540)
    assert "the simulated RabbitMQ does not model" in close.reply_text


def test_clock_goes_forward_only(broker: Broker) -> None:
    with pytest.raises(ValueError, match="can't go back"):
        broker.advance(START_MS - 1)
