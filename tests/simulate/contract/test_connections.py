"""What the handshake and the life of connections and channels rely on (bridge/broker/client/handshake.py)."""

from __future__ import annotations

import pytest
from pamqp import commands, frame
from pamqp.commands import Basic

from tests.simulate.contract.client import Channel, Client, Closed
from tests.simulate.contract.conftest import Node
from topology.verify import check_server


async def test_server_properties_name_a_suitable_broker(node: Node) -> None:
    client = await node.client()

    check_server(client.server)

    assert str(client.server["version"]).startswith(node.rules.number.rpartition(".")[0])


async def test_wrong_password_is_refused_with_a_reason(node: Node) -> None:
    with pytest.raises(Closed, match="ACCESS_REFUSED - Login was refused") as refused:
        await Client.open(node.port, node.vhost, password="wrong")

    assert (refused.value.code, refused.value.connection) == (403, True)


async def test_missing_virtual_host_is_refused(node: Node) -> None:
    with pytest.raises(Closed, match=r"NOT_ALLOWED - .*vhost none not found") as refused:
        await Client.open(node.port, "none")

    assert refused.value.code == 530


async def test_close_of_a_connection_is_answered(node: Node) -> None:
    client = await node.client()
    client.write(frame.marshal(commands.Connection.Close(200, "", 0, 0), 0))

    await client.answer(commands.Connection.CloseOk)


async def test_limits_beyond_the_broker_s_end_the_connection(node: Node) -> None:
    """RabbitMQ takes 0, which means no limit, for more than its own."""
    with pytest.raises(Closed) as closed:
        await Client.open(node.port, node.vhost, channels=0)

    assert (closed.value.code, closed.value.connection) == (0, True)


async def test_frame_on_a_closed_channel_ends_the_connection(node: Node, channel: Channel) -> None:
    """So the bridge's channel writes nothing behind Close or Close-Ok."""
    await channel.close()
    channel.send(Basic.Qos(prefetch_count=1))

    closed = await channel.is_closed()

    assert (closed.code, closed.connection) == (504, True)
    assert "CHANNEL_ERROR - expected 'channel.open'" in closed.text


async def test_closed_channel_number_can_be_used_again(node: Node) -> None:
    client = await node.client()
    for _ in range(2):
        channel = await client.channel(number=7)
        await channel.close()


async def test_close_crosses_a_close_of_the_broker(node: Node, channel: Channel) -> None:
    """The number is free when RabbitMQ has answered (bridge/broker/client/channel.py)."""
    channel.send(Basic.Ack(delivery_tag=9))
    channel.send(commands.Channel.Close(200, "", 0, 0))

    assert (await channel.is_closed()).code == 406


async def test_unknown_exchange_type_is_refused(node: Node, channel: Channel) -> None:
    with pytest.raises(Closed, match=r"(COMMAND_INVALID|PRECONDITION_FAILED) - ") as refused:
        await channel.declare_exchange(node.name("x"), "x-delayed-message", durable=True)

    assert refused.value.code == node.rules.unknown_type
