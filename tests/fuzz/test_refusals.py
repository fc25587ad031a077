"""Tests that a refused request changes nothing: no key, queue, message or binding."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import httpx2
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis

from bridge.local.rabbitmq import RabbitNode
from bridge.local.redis import RedisNode
from tests.examples import examples
from tests.fuzz.camellia import mistaken
from tests.fuzz.limits import LIMITS, Limit, limited
from tests.fuzz.requests import Sent, wrong
from tests.fuzz.world import World, difference
from tests.integration.own import Own

_MEMBERS = {"type", "title", "status", "detail", "errors", "request_id"}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def world(fuzzed: Own, rabbit: RabbitNode, redis_node: RedisNode) -> AsyncIterator[World]:
    async with (
        Redis.from_url(redis_node.url) as redis,
        httpx2.AsyncClient(base_url=rabbit.management_url, timeout=60) as management,
    ):
        world = World(own=fuzzed, redis=redis, management=management)
        await world.prepare()
        yield world


async def send(world: World, sent: Sent) -> httpx2.Response:
    return await world.own.topic.client.request(
        sent.method,
        "/",
        content=sent.body,
        headers={"Content-Type": sent.content_type} if sent.content_type else {},
        extensions={"target": sent.target},
    )


def check_problem(answer: httpx2.Response) -> None:
    assert answer.headers["Content-Type"] == "application/problem+json"
    problem = answer.json()
    assert problem.keys() >= _MEMBERS
    assert problem["status"] == answer.status_code
    if answer.status_code == 422:
        assert problem["errors"]
        for error in problem["errors"]:
            assert error["field"], error
            assert error["message"], error


async def check_refused(world: World, requests: list[Sent]) -> None:
    before = await world.state()
    for sent in requests:
        answer = await send(world, sent)
        if sent.target.endswith(b"/batch") and answer.status_code == 200:
            assert {result["status"] for result in answer.json()["results"]} <= {400, 413, 422}, sent
        else:
            assert 400 <= answer.status_code < 500, (sent, answer.status_code, answer.text)
            check_problem(answer)
    assert difference(before, await world.state()) == {}


@given(st.lists(wrong(), min_size=1, max_size=25))
@examples(8)
async def test_a_refused_request_changes_nothing(world: World, requests: list[Sent]) -> None:
    await check_refused(world, requests)


@given(st.lists(mistaken(), min_size=1, max_size=25))
@examples(8)
async def test_a_request_that_the_camellia_wire_refuses_changes_nothing(world: World, requests: list[Sent]) -> None:
    before = await world.state()
    for sent in requests:
        answer = await send(world, sent)
        assert answer.status_code in {200, 400, 404, 405}, (sent, answer.status_code, answer.text)
        if answer.status_code == 200:
            assert answer.json()["code"] in {400, 404}, (sent, answer.text)
    assert difference(before, await world.state()) == {}


@pytest.mark.parametrize("case", LIMITS, ids=lambda case: f"{case[1]}-{case[2]}-{case[4][:20]}")
async def test_a_value_at_its_limit_is_taken_and_one_beyond_is_refused_by_name(world: World, case: Limit) -> None:
    method, path, field, most, beyond, limit = case
    taken = await send(world, limited(method, path, field, most))
    assert taken.status_code in {200, 201}, taken.text

    before = await world.state()
    refused = await send(world, limited(method, path, field, beyond))
    assert refused.status_code == 422, refused.text
    (error,) = refused.json()["errors"]
    assert (error["field"], error["limit"]) == (field, limit)
    if len(beyond) < 100:
        assert error["value"] == json.loads(beyond)
    assert difference(before, await world.state()) == {}
