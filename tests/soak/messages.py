"""Sends, looks up, moves and deletes messages, and sends what the bridge refuses."""

from __future__ import annotations

from typing import Any, Final

from tests.soak.calls import Calls, at
from tests.soak.topics import CONSUMED, PULLED, QUIET

LONGEST_MS: Final = 3_000
_OTHERS: Final = (404, 409)  # the message is no longer what the call needs


def _message(calls: Calls, number: int, delay_ms: int = -1) -> dict[str, Any]:
    delay_ms = calls.random.randint(0, LONGEST_MS) if delay_ms < 0 else delay_ms
    size = calls.random.choice((20, 200, 2_000))  # in the record, and behind a key of its own
    return {"id": f"{calls.mark}-{number}", "body": f"{number} ".ljust(size, "."), "delay": delay_ms}


async def now(calls: Calls, number: int) -> None:
    await calls.ask("POST", at(PULLED, "/messages"), _message(calls, number, 0), expect=(201,))


async def later(calls: Calls, number: int) -> None:
    topic = calls.random.choice((PULLED, CONSUMED))
    await calls.ask("POST", at(topic, "/messages"), _message(calls, number), expect=(201,))


async def batch(calls: Calls, number: int) -> None:
    """Sends five messages, of which the bridge names four, and refuses one."""
    named, *others = [_message(calls, number) for _ in range(5)]
    messages = [named, *({**one, "id": None} for one in others[:3]), {**others[3], "delay": "10000d"}]
    answer = await calls.ask("POST", at(PULLED, "/messages/batch"), {"messages": messages})
    statuses = [one["status"] for one in answer["results"]]
    calls.check(answer, statuses[-1] == 422 and {*statuses[:-1]} <= {201, 503})


async def twice(calls: Calls, number: int) -> None:
    """Sends an id two times. The second send may begin a new message if the first has ended."""
    sent = _message(calls, number)
    for _ in range(2):
        await calls.ask("POST", at(PULLED, "/messages"), sent, expect=(200, 201))


async def refused(calls: Calls, number: int) -> None:
    sent = _message(calls, number)
    for wrong in ({"delay": "soon"}, {"id": "x" * 201}, {"ttl": -1}, {"body_base64": "!"}):
        await calls.ask("POST", at(PULLED, "/messages"), {**sent, **wrong}, expect=(422,))
    await calls.ask("GET", at(PULLED, "/messages/nobody-sent-it"), expect=(404,))


async def looked(calls: Calls, number: int) -> None:
    sent = _message(calls, number)
    await calls.ask("POST", at(PULLED, "/messages"), sent, expect=(201,))
    await calls.ask("GET", at(PULLED, f"/messages/{sent['id']}"))
    await calls.ask("GET", at(PULLED, "/messages?state=waiting&limit=20"))
    await calls.ask("GET", at(PULLED))


async def moved(calls: Calls, number: int) -> None:
    sent = _message(calls, number, LONGEST_MS)
    await calls.ask("POST", at(CONSUMED, "/messages"), sent, expect=(201,))
    for delay_ms in (LONGEST_MS + 500, 200):
        path = at(CONSUMED, f"/messages/{sent['id']}")
        await calls.ask("PATCH", path, {"delay": delay_ms}, expect=(200, *_OTHERS))


async def deleted(calls: Calls, number: int) -> None:
    sent = _message(calls, number)
    await calls.ask("POST", at(PULLED, "/messages"), sent, expect=(201,))
    await calls.ask("DELETE", at(PULLED, f"/messages/{sent['id']}"), expect=(200, *_OTHERS))


async def expires(calls: Calls, number: int) -> None:
    """Sends a message that nobody takes before its time to live passes."""
    sent = {**_message(calls, number, 500), "ttl": 200}
    await calls.ask("POST", at(QUIET, "/messages"), sent, expect=(201,))


async def left(calls: Calls, number: int) -> None:
    """Leaves a poll of a topic without messages, and one of a topic that nobody made."""
    for topic in (QUIET, f"nobody-made-{calls.mark}-{number}"):
        await calls.leave(at(topic, "/pull"), {"wait": "20s"}, calls.random.uniform(0.05, 0.5))
    await calls.leave("/v1/pull", {"topics": [QUIET, f"{QUIET}-2"], "wait": "20s"}, 0.2)


async def unknown(calls: Calls, number: int) -> None:
    topic = f"nobody-asked-{calls.mark}-{number}"
    await calls.ask("POST", at(topic, "/pull"), {"wait": 200})
    await calls.ask("GET", at(topic), expect=(404,))
