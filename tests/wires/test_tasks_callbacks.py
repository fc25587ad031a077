"""Tests tasks whose content names a receiver: the bridge calls them back by the rules of callbacks."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from standardwebhooks.webhooks import Webhook

from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.callbacks.receiver import Receiver, answer, receiving
from tests.integration.own import own_bridge
from tests.integration.topic import Topic
from tests.wires.test_tasks import NONE_DUE, SUCCESS, Tasks

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def service() -> AsyncIterator[Receiver]:
    """The receiver of the service `shop` in the settings."""
    async with receiving() as receiver:
        yield receiver


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def calling(
    rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path, service: Receiver
) -> AsyncIterator[Topic]:
    further = {
        "BRIDGE_PUSH_ALLOW": "http://127.0.0.1",
        "BRIDGE_TASK_SERVICES": json.dumps({"shop": {"url": service.url, "secret": SECRET}}),
    }
    async with own_bridge(rabbit, redis_node.url, local_dir / "task-callbacks", **further) as own:
        yield own.topic


@pytest.fixture
def tasks(calling: Topic) -> Tasks:
    return Tasks(calling.client)


@pytest.mark.parametrize("as_text", [True, False], ids=["text", "object"])
async def test_a_services_task_is_called_back_signed_when_due(tasks: Tasks, service: Receiver, as_text: bool) -> None:
    service.then = []
    content: Any = {"sn": "shop", "url": "/paid?x=y", "order": 1001}
    content = json.dumps(content) if as_text else content
    moment_s = int(time.time()) + 1
    task_id = (await tasks.call("add", timing_moment=moment_s, content=content))["task_id"]

    (call,) = await service.some(1)

    assert call.at_ms >= moment_s * 1_000
    assert call.target == "/paid?x=y"
    assert call.headers["content-type"].startswith("application/json")
    assert call.headers["x-delay-id"] == str(task_id)
    verified = Webhook(SECRET).verify(call.body, dict(call.headers))
    assert verified == {"sn": "shop", "url": "/paid?x=y", "order": 1001}
    await Topic(tasks.client, f"{tasks.topic}.callbacks").until_state(str(task_id), "acked")
    assert await tasks.pull(task_id=task_id) == {**SUCCESS, "task_id": task_id, "content": content}
    assert await tasks.pull() == NONE_DUE


async def test_a_task_with_only_a_url_is_called_back_unsigned_and_retried(tasks: Tasks) -> None:
    async with receiving() as receiver:
        receiver.then = [answer(410, retry_after="30")]
        task_id = await tasks.add({"url": receiver.url, "n": 1})
        topic = Topic(tasks.client, f"{tasks.topic}.callbacks")
        (call,) = await receiver.some(1)
        assert "webhook-signature" not in call.headers
        # The 410 is a failed attempt of this task. The move ends its back-off early.
        await topic.until_state(str(task_id), "waiting")
        await topic.move(str(task_id), delay=0)
        (again,) = await receiver.some(1)
        assert again.headers["x-delay-attempt"] == "2"
        await topic.until_state(str(task_id), "acked")


async def test_a_busy_receiver_does_not_delay_another(tasks: Tasks) -> None:
    async with receiving() as busy, receiving() as idle:
        busy.then = [answer(429, retry_after="5")]
        await tasks.add({"url": busy.url})
        (first,) = await busy.some(1)
        await tasks.add({"url": busy.url})
        await tasks.add({"url": idle.url})
        (other,) = await idle.some(1)
        calls = await busy.some(2)
        assert min(call.at_ms for call in calls) >= first.at_ms + 5_000
        assert other.at_ms < calls[0].at_ms


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ({"sn": "other", "url": "/x"}, "sn: there is no such service"),
        ({"sn": "shop", "url": "https://hooks.example/"}, "url: is not of the service that sn names"),
        ({"sn": "shop", "url": "//hooks.example/"}, None),
        ({"sn": "shop", "url": "@hooks.example/"}, "url: must be https://host"),
        ({"url": "https://169.254.169.254/latest"}, "which is not a public address (link-local"),
        ({"url": "http://127.0.0.2/"}, "must be https"),
    ],
)
async def test_a_task_with_a_forbidden_receiver_is_refused(
    tasks: Tasks, service: Receiver, content: dict[str, Any], text: str | None
) -> None:
    refused = await tasks.call("add", timing_moment=1, content=content)
    if text is None:  # a path of the service
        assert refused["dm_error"] == 0
        assert (await service.some(1))[0].target == "//hooks.example/"
    else:
        assert refused["dm_error"] == 400
        assert text in refused["error_msg"]
