"""Sends messages over HTTP and AMQP, moves and deletes them, and notes each try.

The history knows a message by its key, which is its body. Its id is its key too, unless the id is used again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from itertools import count
from typing import Any, Final

from tests.events import What
from tests.history import History, now_ms
from tests.torture.amqp import Publisher
from tests.torture.api import Api
from tests.torture.policies import Policies

When = Mapping[str, Any]
"""`delay` or `deliver_at`, in milliseconds, and other fields of a send."""

CREATED: Final = 201
OK: Final = 200
NOT_FOUND: Final = 404
CONFLICT: Final = 409
LIVES: Final = 422
"""A send has another body than the live message of its id."""


class Sender:
    def __init__(self, api: Api, publisher: Publisher, history: History, policies: Policies) -> None:
        self.api = api
        self.history = history
        self._publisher = publisher
        self._policies = policies

    async def send(self, topic: str, key: str, when: When, *, message_id: str = "") -> list[int | None]:
        """Sends until the message is accepted. Returns the statuses of the tries before: None for no answer."""
        failed: list[int | None] = []
        while (status := await self.try_to_send(topic, key, when, message_id=message_id)) not in (OK, CREATED):
            failed.append(status)
            await self.api.pause()
        return failed

    async def send_without_id(self, topic: str, key: str, when: When) -> None:
        """Sends until a message is accepted. Each try may create a message, so each has a key of its own."""
        for number in count():
            if await self.try_to_send(topic, f"{key}-{number}", when, message_id=None) in (OK, CREATED):
                return
            await self.api.pause()

    async def try_to_send(self, topic: str, key: str, when: When, *, message_id: str | None = "") -> int | None:
        """Sends once; `message_id` None: without an id. Returns the status, or None without an answer."""
        self._note_sending(topic, key, when)
        message = {"body": key, **when} if message_id is None else {"id": message_id or key, "body": key, **when}
        response = await self.api.call("POST", f"/v1/topics/{topic}/messages", message)
        if response is None:
            self.history.note(key, What.UNANSWERED)
            return None
        # A message that Redis had lost, or its end, may be back.
        lives_again = response.status_code == LIVES and self.history.emptyings
        if response.status_code < 500 and not lives_again:
            response.raise_for_status()
            self._note_accepted(topic, key)
        return response.status_code

    async def send_together(self, topic: str, messages: Mapping[str, When]) -> bool:
        """Sends messages, given by key, as batches until all are accepted. Returns whether each try was answered."""
        waiting, answered = dict(messages), True
        while waiting:
            for key, when in waiting.items():
                self._note_sending(topic, key, when)
            batch = [{"id": key, "body": key, **when} for key, when in waiting.items()]
            response = await self.api.call("POST", f"/v1/topics/{topic}/messages/batch", {"messages": batch})
            if response is None:
                answered = False
                for key in waiting:
                    self.history.note(key, What.UNANSWERED)
            elif response.status_code < 500:
                response.raise_for_status()
                for key, result in zip(tuple(waiting), response.json()["results"], strict=True):
                    if result["status"] in (OK, CREATED):
                        self._note_accepted(topic, key)
                        del waiting[key]
            if waiting:
                await self.api.pause()
        return answered

    async def publish(self, topic: str, key: str, delay_ms: int) -> None:
        """Publishes over AMQP with a key of the wheel, until RabbitMQ confirms the message."""
        await self._until_confirmed(self._publisher.publish, topic, key, delay_ms, unconfirmed=What.BESIDE)

    async def submit(self, topic: str, key: str, delay_ms: int) -> bool:
        """Publishes over AMQP with the delay in a header, until RabbitMQ confirms the message. Returns whether it did
        so at the first try: then there is one message."""
        return await self._until_confirmed(self._publisher.submit, topic, key, delay_ms, unconfirmed=What.UNANSWERED)

    async def _until_confirmed(
        self,
        publish: Callable[[str, str, int], Awaitable[bool]],
        topic: str,
        key: str,
        delay_ms: int,
        *,
        unconfirmed: What,
    ) -> bool:
        for tries in count(1):
            self._note_sending(topic, key, {"delay": delay_ms})
            if await publish(topic, key, delay_ms):
                self._note_accepted(topic, key)
                return tries == 1
            self.history.note(key, unconfirmed)
            await self.api.pause()
        raise AssertionError

    async def move(self, topic: str, key: str, when: When) -> bool:
        """Moves the message, and tries once. Returns whether the move was answered 200."""
        self.history.note(key, What.MOVING, due_ms=due_ms(when))
        response = await self.api.call("PATCH", f"/v1/topics/{topic}/messages/{key}", dict(when))
        if response is None or response.status_code >= 500:
            return False
        if response.status_code in (NOT_FOUND, CONFLICT):
            self.history.note(key, What.FORGOTTEN if response.status_code == NOT_FOUND else What.NOT_MOVED)
            return False
        self.history.note(key, What.MOVED, due_ms=instant_ms(response.raise_for_status().json()["due_at"]))
        return True

    async def delete(self, topic: str, key: str, *, message_id: str = "") -> bool:
        """Deletes the message. Returns whether the delete was answered 200, and each try was answered.

        A try without an answer may be carried out later, and then ends another message of the same id.
        """
        self.history.note(key, What.DELETING)
        path, unanswered = f"/v1/topics/{topic}/messages/{message_id or key}", False
        while (response := await self.api.call("DELETE", path)) is None or response.status_code >= 500:
            unanswered |= response is None
            await self.api.pause()
        answered = {OK: What.DELETED, NOT_FOUND: What.FORGOTTEN}
        self.history.note(key, answered.get(response.status_code, What.NOT_DELETED))
        return response.status_code == OK and not unanswered

    def _note_sending(self, topic: str, key: str, when: When) -> None:
        self.history.note(key, What.SENDING, due_ms=due_ms(when))
        self._note_release(topic, key)

    def _note_accepted(self, topic: str, key: str) -> None:
        self._note_release(topic, key)
        self.history.note(key, What.ACCEPTED)

    def _note_release(self, topic: str, key: str) -> None:
        if self._policies.may_be_direct(topic):
            self.history.note(key, What.UNCHECKED)


def due_ms(when: When) -> int:
    """The earliest moment at which a message that is sent or moved now can be due."""
    return int(when["deliver_at"]) if "deliver_at" in when else now_ms() + int(when["delay"])


def instant_ms(text: str) -> int:
    """Reads an instant of an answer."""
    return round(datetime.fromisoformat(text).timestamp() * 1_000)
