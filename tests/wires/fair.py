"""Defines a client for each wire. All clients have the same five methods: send, find, pull, ack and delete."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from base64 import b64decode
from dataclasses import dataclass
from typing import Any, ClassVar
from urllib.parse import quote

import httpx2

from tests.integration.topic import Topic
from tests.waiting import pause
from tests.wires.lmstfy import Lmstfy

Pulled = tuple[str | None, str]


@dataclass(frozen=True, slots=True)
class Wire(ABC):
    """A client of the bridge. `lmstfy` creates tokens."""

    client: httpx2.AsyncClient
    lmstfy: Lmstfy

    ids_are_given: ClassVar[bool] = True
    """Whether the client chooses the id."""

    def topic(self, name: str) -> Topic:
        """Returns the topic as a client of the bridge's own API."""
        return Topic(self.client, name)

    @abstractmethod
    async def send(self, topic: str, message_id: str, *, delay_s: int) -> str:
        """Sends `hello` with a ttl of 100 s, 3 tries and a lease of 60 s, if the wire has these. Returns the id."""

    @abstractmethod
    async def find(self, topic: str, message_id: str) -> Any:
        """Returns this wire's name of the message's state, or None if there is no such message."""

    @abstractmethod
    async def pull(self, topic: str) -> Pulled:
        """Waits for a message. Returns its id, or None if the wire does not show it, and its body."""

    @abstractmethod
    async def ack(self, topic: str, message_id: str) -> None: ...

    @abstractmethod
    async def delete(self, topic: str, message_id: str) -> None: ...

    async def posted(self, path: str, **members: Any) -> Any:
        answer = await self.client.post(path, json=members)
        assert answer.status_code == 200, answer.text
        return answer.json()


class V1(Wire):
    async def send(self, topic: str, message_id: str, *, delay_s: int) -> str:
        own = self.topic(topic)
        await own.send("hello", id=message_id, delay=f"{delay_s}s", ttl="100s", max_retry=2, content_type="text/plain")
        return message_id

    async def find(self, topic: str, message_id: str) -> Any:
        answer = await self.client.get(f"/v1/topics/{quote(topic, safe='')}/messages/{message_id}")
        return {200: answer.json().get("state"), 404: None}[answer.status_code]

    async def pull(self, topic: str) -> Pulled:
        message = await self.topic(topic).pull_one(lease="60s")
        body = message["body"] if "body" in message else b64decode(message["body_base64"]).decode()
        return message["id"], body

    async def ack(self, topic: str, message_id: str) -> None:
        await self.topic(topic).call("POST", "/ack", {"ids": [message_id]})

    async def delete(self, topic: str, message_id: str) -> None:
        await self.topic(topic).delete(message_id)


class Camellia(Wire):
    async def asked(self, call: str, **params: Any) -> Any:
        answer = (await self.client.post(f"/camellia/delayQueue/{call}", data=params)).json()
        assert answer["code"] in (200, 404), answer
        return answer

    async def send(self, topic: str, message_id: str, *, delay_s: int) -> str:
        terms = {"delayMillis": delay_s * 1_000, "ttlMillis": 100_000, "maxRetry": 2}
        assert (await self.asked("sendMsg", topic=topic, msgId=message_id, msg="hello", **terms))["code"] == 200
        return message_id

    async def find(self, topic: str, message_id: str) -> Any:
        message = (await self.asked("getMsg", topic=topic, msgId=message_id))["delayMsg"]
        return message and message["status"]

    async def pull(self, topic: str) -> Pulled:
        terms = {"ackTimeoutMillis": 60_000, "longPollingTimeoutMillis": 60_000}
        (message,) = (await self.asked("longPollingMsg", topic=topic, **terms))["delayMsgList"]
        return message["msgId"], message["msg"]

    async def ack(self, topic: str, message_id: str) -> None:
        assert (await self.asked("ackMsg", topic=topic, msgId=message_id))["code"] == 200

    async def delete(self, topic: str, message_id: str) -> None:
        assert (await self.asked("deleteMsg", topic=topic, msgId=message_id))["code"] == 200


class LmstfyWire(Wire):
    ids_are_given: ClassVar[bool] = False

    async def asked(self, method: str, topic: str, rest: str, body: bytes = b"") -> httpx2.Response:
        token = await self.lmstfy.token(topic.partition("/")[0])
        return await self.client.request(method, f"/api/{topic}{rest}", headers={"X-Token": token}, content=body)

    async def send(self, topic: str, message_id: str, *, delay_s: int) -> str:
        published = await self.asked("PUT", topic, f"?delay={delay_s}&ttl=100&tries=3", b"hello")
        assert published.status_code == 201, published.text
        job_id: str = published.json()["job_id"]
        return job_id

    async def find(self, topic: str, message_id: str) -> Any:
        answer = await self.asked("GET", topic, f"/job/{message_id}")
        return {200: "found", 404: None}[answer.status_code]

    async def pull(self, topic: str) -> Pulled:
        job = (await self.asked("GET", topic, "?timeout=60&ttr=60")).json()
        return job["job_id"], b64decode(job["data"]).decode()

    async def ack(self, topic: str, message_id: str) -> None:
        assert (await self.asked("DELETE", topic, f"/job/{message_id}")).status_code == 204

    delete = ack


class Ouqiang(Wire):
    async def asked(self, call: str, **members: Any) -> Any:
        answer = await self.posted(f"/{call}", **members)
        assert answer["code"] == 0, answer
        return answer["data"]

    async def send(self, topic: str, message_id: str, *, delay_s: int) -> str:
        await self.asked("push", topic=topic, id=message_id, delay=delay_s, ttr=60, body="hello")
        return message_id

    async def find(self, topic: str, message_id: str) -> Any:
        return "found" if await self.asked("get", id=message_id) else None

    async def pull(self, topic: str) -> Pulled:
        job = await self.asked("pop", topic=topic)
        return job["id"], job["body"]

    async def ack(self, topic: str, message_id: str) -> None:
        await self.asked("finish", id=message_id)

    async def delete(self, topic: str, message_id: str) -> None:
        await self.asked("delete", id=message_id)


class Changsongl(Wire):
    async def asked(self, method: str, path: str, **members: Any) -> Any:
        answer = (await self.client.request(method, path, json=members)).json()
        assert answer["success"], answer
        return answer

    async def send(self, topic: str, message_id: str, *, delay_s: int) -> str:
        await self.asked("POST", f"/topic/{topic}/job", id=message_id, delay=delay_s, ttr=60, body="hello")
        return message_id

    async def find(self, topic: str, message_id: str) -> Any:
        raise NotImplementedError

    async def pull(self, topic: str) -> Pulled:
        job = (await self.asked("GET", f"/topic/{topic}/job?timeout=60"))["data"]
        return job["id"], job["body"]

    async def ack(self, topic: str, message_id: str) -> None:
        await self.asked("PUT", f"/topic/{topic}/job/{quote(message_id)}")

    async def delete(self, topic: str, message_id: str) -> None:
        await self.asked("DELETE", f"/topic/{topic}/job/{quote(message_id)}")


class Youzan(Wire):
    async def asked(self, command: str, **members: Any) -> Any:
        answer = await self.posted("/youzan", command=command, **members)
        assert answer["success"], answer
        return answer

    async def send(self, topic: str, message_id: str, *, delay_s: int) -> str:
        await self.asked("add", topic=topic, id=message_id, delay=delay_s, TTR=60, body="hello")
        return message_id

    async def find(self, topic: str, message_id: str) -> Any:
        answer = await self.posted("/youzan", command="state", id=message_id)
        return answer["value"] if answer["success"] else None

    async def pull(self, topic: str) -> Pulled:
        answer = await self.asked("pop", topic=topic, timeout=60)
        return answer["id"], answer["value"]

    async def ack(self, topic: str, message_id: str) -> None:
        await self.asked("finish", id=message_id)

    async def delete(self, topic: str, message_id: str) -> None:
        await self.asked("delete", id=message_id)


class Tasks(Wire):
    ids_are_given: ClassVar[bool] = False

    async def send(self, topic: str, message_id: str, *, delay_s: int) -> str:
        moment_s = int(time.time()) + delay_s
        added = await self.posted("/delay/task/add", topic=topic, timing_moment=moment_s, content="hello")
        assert added["dm_error"] == 0, added
        return str(added["task_id"])

    async def find(self, topic: str, message_id: str) -> Any:
        raise NotImplementedError  # reading a due task consumes it

    async def pull(self, topic: str) -> Pulled:
        """The wire's own pull does not wait, so an empty pull of another topic paces the loop."""
        while (task := await self.posted("/delay/task/pull", topic=topic))["content"] is None:
            assert task["dm_error"] == 0, task
            await pause()
        return None if task["task_id"] is None else str(task["task_id"]), task["content"]

    async def ack(self, topic: str, message_id: str) -> None:
        """The pull itself acknowledges the task, once its answer is sent."""
        await self.topic(topic).until_state(message_id, "acked")

    async def delete(self, topic: str, message_id: str) -> None:
        raise NotImplementedError


WIRES: dict[str, type[Wire]] = {
    "v1": V1,
    "camellia": Camellia,
    "lmstfy": LmstfyWire,
    "ouqiang": Ouqiang,
    "changsongl": Changsongl,
    "youzan": Youzan,
    "tasks": Tasks,
}
