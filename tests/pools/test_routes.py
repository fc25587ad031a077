"""Tests which pool serves a topic, and operations over all pools, with services that answer with their names."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import pytest

from bridge.broker.declared.findings import Finding
from bridge.model.errors import InvalidRequest
from bridge.service.health.health import Health
from bridge.service.pools.pools import Pools, Routes
from bridge.service.service import Service
from bridge.settings.settings import Settings

ROUTES = Routes({"shop": "eu", "shop.uk": "us"})


@pytest.mark.parametrize(
    ("topic", "pool"),
    [
        ("shop/orders", "eu"),
        ("shop.uk/orders", "us"),
        ("shop", "default"),  # a topic without a namespace
        ("shops/orders", "default"),
        ("Shop/orders", "default"),
        ("orders", "default"),
        ("orders/shop", "default"),
    ],
)
def test_the_namespace_decides_the_pool(topic: str, pool: str) -> None:
    assert ROUTES.of(topic) == pool


class Noted:
    """Answers each call with the pool's name."""

    def __init__(self, pool: str) -> None:
        self._pool = pool

    def __getattr__(self, called: str) -> Any:
        async def answer(*_: Any) -> Any:
            return [self._pool]

        return answer


@pytest.fixture
def pools() -> Pools:
    services = {}
    for name in ("default", "eu", "us"):
        service = Service(Settings(), pool=name)
        setattr(service, "topics", Noted(name))  # noqa: B010 - a stand-in of another type
        setattr(service, "lookup", Noted(name))  # noqa: B010
        services[name] = service
    return Pools(services, ROUTES)


def test_a_topic_is_served_by_the_service_of_its_pool(pools: Pools) -> None:
    assert pools.serving("shop/orders") is pools.services["eu"]
    assert pools.serving("orders") is pools.services["default"] is pools.default


def test_topics_of_one_pool_are_served_by_its_service(pools: Pools) -> None:
    assert pools.serving_all(["shop/a", "shop/b"]) is pools.services["eu"]
    assert pools.serving_all([]) is pools.default


def test_topics_of_two_pools_are_refused_with_the_topics_named(pools: Pools) -> None:
    with pytest.raises(InvalidRequest) as raised:
        pools.serving_all(["orders", "shop/orders"])
    (error,) = raised.value.errors
    assert (error.field, error.value, error.limit) == ("topics", ["orders", "shop/orders"], "topics of one pool")
    assert error.message == (
        "are of several pools: orders is in default, shop/orders is in eu; send one request for each pool"
    )


async def test_an_operation_on_all_topics_asks_each_pool_once(pools: Pools) -> None:
    assert await pools.topic_names() == ["default", "eu", "us"]
    assert cast(Any, await pools.topic_infos()) == ["default", "eu", "us"]
    assert cast(Any, await pools.find(["shop/a", "a", "shop/b"], "1")) == ["eu", "default"]


@pytest.mark.parametrize("well", [("default",), ("eu",), ("default", "eu", "us"), ()])
async def test_the_process_is_ready_while_any_pool_is_ready(pools: Pools, well: tuple[str, ...]) -> None:
    for name, service in pools.services.items():
        finding = Finding("warning", f"of {name}")
        part = "broker" if name == "default" else f"{name}/broker"
        state = "ok" if name in well else "away"
        health = Health(ok=name in well, parts={part: state}, findings=[finding], policies=f"as in {name}")
        setattr(service, "health", partial(answered, health))  # noqa: B010 - it is a method
    health = await pools.health()
    assert health.ok == bool(well)
    assert {part for part, state in health.parts.items() if state == "ok"} == {
        "broker" if name == "default" else f"{name}/broker" for name in well
    }
    assert [one.says for one in health.findings] == ["of default", "pool eu: of eu", "pool us: of us"]
    assert health.policies == "as in default; pool eu: as in eu; pool us: as in us"


async def answered(health: Health) -> Health:
    return health
