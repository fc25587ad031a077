"""Shows mypy the types of the clients' methods: `make types` fails if they are lost. Nobody runs it."""

from __future__ import annotations

from typing import assert_type

from delaybridge_client import (
    Client,
    Delivery,
    Message,
    Page,
    Pulled,
    SendResult,
    SentMessage,
    SyncClient,
    operations,
)


async def with_asyncio(client: Client) -> None:
    assert_type(await client.send("orders", 1), SentMessage)
    assert_type(await client.pull("orders", max=2), Pulled)
    assert_type(await client.list_messages("orders"), Page[Message])
    assert_type(await client.drop_many("orders"), int)
    assert_type(await client.unsubscribe("orders"), None)
    await client.send("orders")  # type: ignore[call-arg] # without a body
    await client.send("orders", 1, delay=5)  # type: ignore[arg-type] # not a timedelta
    async for message in client.every(operations.list_dead("orders")):
        assert_type(message, Message)
    async for delivery in client.consumer("orders"):
        assert_type(delivery, Delivery)


def without_asyncio(client: SyncClient) -> None:
    assert_type(client.send("orders", 1), SentMessage)
    assert_type(client.send_many("orders", []), tuple[SendResult, ...])
    for message in client.every(operations.list_messages("orders")):
        assert_type(message, Message)
    client.move("orders")  # type: ignore[call-arg] # without an id
