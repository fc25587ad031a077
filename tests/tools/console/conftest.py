"""Provides one bridge that asks for tokens, tokens of an operator and of a reader, and one browser."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import httpx2
import pytest
import pytest_asyncio

from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from bridge.store.client import Store
from bridge.store.kept.tokens import StoredTokens
from bridge.store.keys import Keys
from tests.access.conftest import Mint
from tests.integration.own import own_bridge
from tests.tools.console.browser import Browser, programs


@dataclass(frozen=True, kw_only=True, slots=True)
class Stage:
    """A bridge. `operator` and `reader`: tokens for every topic, the second one only to look. `client`: the API, as the
    operator."""

    url: str
    operator: str
    reader: str
    client: httpx2.AsyncClient

    async def send(self, topic: str, message_id: str, *, delay: str = "1h", **further: object) -> None:
        body = {"id": message_id, "body": {"n": 1}, "delay": delay, **further}
        sent = await self.client.post(f"/v1/topics/{topic}/messages", json=body)
        assert sent.status_code == 201, sent.text

    async def state(self, topic: str, message_id: str) -> str:
        message = await self.client.get(f"/v1/topics/{topic}/messages/{message_id}")
        state: str = message.json()["state"]
        return state

    async def kill(self, topic: str, message_id: str, reason: str) -> None:
        """Makes a dead letter."""
        await self.send(topic, message_id, delay="0s", max_retry=0)
        pulled = await self.client.post(f"/v1/topics/{topic}/pull", json={"wait": "30s"})
        (message,) = pulled.json()["messages"]
        body = {"receipt": message["receipt"], "reason": reason}
        nacked = await self.client.post(f"/v1/topics/{topic}/messages/{message_id}/nack", json=body)
        assert nacked.status_code == 200, nacked.text


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stage(rabbit: RabbitNode, redis_node: RedisNode, local_dir: Path) -> AsyncIterator[Stage]:
    programs()
    settings = {"BRIDGE_ACCESS": "tokens", "BRIDGE_MANAGEMENT_URL": rabbit.management_url, "BRIDGE_BACKOFF_FIRST": "1s"}
    async with own_bridge(rabbit, redis_node.url, local_dir / "console", **settings) as own:
        store = Store(redis_node.url, timeout_ms=5_000)
        mint = Mint(store)
        mint.stored = StoredTokens(store, Keys(own.settings["BRIDGE_REDIS_PREFIX"]))
        operator = await mint.make("look", "send", "consume", "admin", name="on-call")
        await mint.make("look", name="reader")
        await store.close()
        async with httpx2.AsyncClient(base_url=own.bridge.url, headers=operator, timeout=60) as client:
            yield Stage(url=own.bridge.url, operator=mint.made[0], reader=mint.made[1], client=client)


@pytest.fixture(scope="module")
def browser(stage: Stage) -> Iterator[Browser]:
    browser = Browser(stage.url)
    yield browser
    browser.close()


@pytest_asyncio.fixture(loop_scope="session")
async def signed_in(stage: Stage, browser: Browser) -> Browser:
    """The browser, signed in as the operator."""
    await asyncio.to_thread(sign_in, browser, stage.operator, "on-call")
    return browser


def sign_in(browser: Browser, token: str, name: str) -> None:
    """Signs in with the token, whoever is signed in."""
    browser.open("overview")
    browser.until(lambda: browser.run("return document.querySelector('.sign-in, .who')"), "no page")
    if browser.run("return document.querySelector('.who')") is not None:
        if name in browser.text():
            return
        browser.click("Sign out")
    browser.fill("token", token)
    browser.click("Sign in", "button")
    browser.sees(name)


@pytest.fixture
def topic() -> str:
    return f"console-{uuid4().hex[:8]}"
