"""Makes dead letters, and replays and drops them; and makes topics, and removes them."""

from __future__ import annotations

from tests.callbacks.receiver import receiving
from tests.callbacks.subscribing import SECRET
from tests.soak.calls import Calls, at
from tests.soak.topics import LETTERS, PASSING
from tests.waiting import pause


async def dead(calls: Calls, number: int) -> None:
    """Makes one message a dead letter, uses its id again, and replays or drops a letter."""
    sent = {"id": f"{calls.mark}-{number}", "body": "x" * 1_000, "max_retry": 0}
    await calls.ask("POST", at(LETTERS, "/messages"), sent, expect=(201,))
    pulled = await calls.ask("POST", at(LETTERS, "/pull"), {"max": 5, "wait": "2s", "lease": "2s"})
    for one in pulled["messages"]:
        path = at(LETTERS, f"/messages/{one['id']}/nack")
        await calls.ask("POST", path, {"receipt": one["receipt"]}, expect=(200, 404, 409))
    await calls.ask("POST", at(LETTERS, "/messages"), sent, expect=(200, 201))
    letters = (await calls.ask("GET", at(LETTERS, "/dead?limit=5")))["items"]
    if letters:
        path = at(LETTERS, f"/dead/{calls.random.choice(letters)['id']}")
        if number % 2:
            await calls.ask("POST", f"{path}/replay", expect=(200, 404, 409))
        else:
            await calls.ask("DELETE", path, expect=(200, 404, 409))


async def buried(calls: Calls, topic: str) -> None:
    """Makes one dead letter in a topic that nobody else takes messages of, and drops it."""
    sent = {"body": "buried", "max_retry": 0}
    message = await calls.ask("POST", at(topic, "/messages"), sent, expect=(201,))
    while (await calls.ask("GET", at(topic, f"/messages/{message['id']}")))["state"] != "dead":
        pulled = await calls.ask("POST", at(topic, "/pull"), {"wait": "2s", "lease": "2s"})
        for one in pulled["messages"]:
            path = at(topic, f"/messages/{one['id']}/nack")
            await calls.ask("POST", path, {"receipt": one["receipt"]}, expect=(200, 409))
    await calls.ask("DELETE", at(topic, f"/dead/{message['id']}"))


async def passing(calls: Calls, number: int) -> None:
    """Makes a topic with a policy, and removes it with its messages: waiting, ready, leased, dead."""
    topic = f"{PASSING}{calls.mark}-{number}"
    await calls.ask("PUT", at(topic), {"max_retry": 0, "backoff": ["100ms"]})
    for delay_ms in (0, 0, 0, 2_000):
        await calls.ask("POST", at(topic, "/messages"), {"body": "passing", "delay": delay_ms}, expect=(201,))
    pulled = await calls.ask("POST", at(topic, "/pull"), {"max": 2, "wait": "2s", "lease": "1s"})
    for one in pulled["messages"][:1]:
        await calls.ask(
            "POST", at(topic, f"/messages/{one['id']}/nack"), {"receipt": one["receipt"]}, expect=(200, 409)
        )
    await calls.ask("POST", at(topic, "/pause"))
    await calls.ask("POST", at(topic, "/resume"))
    await remove(calls, topic)


async def called(calls: Calls, number: int) -> None:
    """Subscribes a receiver, which takes one message at the second try, and removes the subscription and its topic."""
    topic = f"{PASSING}{calls.mark}-{number}"
    async with receiving() as receiver:
        receiver.then = [b"HTTP/1.1 500 Some\r\ncontent-length: 0\r\n\r\n"]
        await calls.ask(
            "PUT", at(topic, "/subscription"), {"url": receiver.url, "secret": SECRET, "backoff": ["100ms"]}
        )
        sent = await calls.ask("POST", at(topic, "/messages"), {"body": "called"}, expect=(201,))
        await receiver.some(2)
        while (await calls.ask("GET", at(topic, f"/messages/{sent['id']}")))["state"] != "acked":
            await pause()
        if number % 2:
            await calls.ask("DELETE", at(topic, "/subscription"))
        await remove(calls, topic)


async def remove(calls: Calls, topic: str) -> None:
    """Removes a topic with its messages. A call that RabbitMQ refused may have removed it before."""
    await calls.ask("DELETE", at(topic, "?force=true"), expect=(200, 404))
