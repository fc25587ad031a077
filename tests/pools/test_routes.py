"""Which pool a call goes to, with services that only note what is asked of them."""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any, cast

import pytest

from bridge.broker.declared.findings import Finding
from bridge.model.errors import InvalidRequest
from bridge.model.message import Envelope
from bridge.model.values import Draft
from bridge.service.health import Health
from bridge.service.pools import Pools, Routes
from bridge.service.service import Service
from bridge.service.subscriptions import Subscription
from bridge.settings.settings import Settings

ROUTES = Routes({"shop": "eu", "shop.uk": "us"})
WAYS = [
    "lookup",
    "sending",
    "replacing",
    "pulling",
    "settling",
    "settling_tasks",
    "changing",
    "dead",
    "topics",
    "subscriptions",
]
# What has no topic in front: it ends the process's work, or is asked of one pool by its own loops.
OF_A_PROCESS = {
    "sending.finish",
    "pulling.end_waits",
    "pulling.draining",
    "settling.nack_leased",
    "settling_tasks.nack_leased",
    "subscriptions.version",
    "subscriptions.all",
}
ACROSS = {"topics.names", "topics.infos"}


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
def test_a_topic_is_of_the_pool_of_its_namespace(topic: str, pool: str) -> None:
    assert ROUTES.of(topic) == pool


class Noted:
    """Each call of it is answered with the pool's name and what was called."""

    def __init__(self, pool: str) -> None:
        self._pool = pool

    def __getattr__(self, called: str) -> Any:
        async def answer(*given: Any, **_: Any) -> Any:
            return [self._pool] if called in ("find", "names", "infos") else (self._pool, called, given)

        return answer


@pytest.fixture
def pools() -> Pools:
    services = {}
    for name in ("default", "eu", "us"):
        service = Service(Settings(), pool=name)
        for way in WAYS:
            setattr(service, way, Noted(name))
        services[name] = service
    return Pools(services, ROUTES)


async def test_a_call_goes_to_the_pool_of_the_topic_that_it_begins_with(pools: Pools) -> None:
    draft = Draft(topic="shop/orders", envelope=Envelope(body=b"x"), id="1", delay_ms=0, max_retry=None)
    own = Subscription(topic="shop.uk/orders", url=None)
    assert cast(Any, await pools.sending.send(draft)) == ("eu", "send", (draft,))
    assert cast(Any, await pools.sending.send_many([draft, draft]))[0] == "eu"
    assert cast(Any, await pools.lookup.get("orders", "1")) == ("default", "get", ("orders", "1"))
    assert cast(Any, await pools.subscriptions.put(own))[0] == "us"
    assert cast(Any, await pools.pulling.pull(["shop/a", "shop/b"], limit=1, wait_ms=0, lease_ms=None))[0] == "eu"


async def test_a_pull_over_topics_of_two_pools_is_refused_with_the_topics_named(pools: Pools) -> None:
    with pytest.raises(InvalidRequest) as raised:
        await pools.pulling.pull(["orders", "shop/orders"], limit=1, wait_ms=0, lease_ms=None)
    (error,) = raised.value.errors
    assert (error.field, error.value, error.limit) == ("topics", ["orders", "shop/orders"], "topics of one pool")
    assert error.message == ("are of several pools (orders of default, shop/orders of eu); ask for those of each apart")


async def test_a_look_at_all_topics_is_one_at_each_pool(pools: Pools) -> None:
    assert await pools.topics.names() == ["default", "eu", "us"]
    assert cast(Any, await pools.topics.infos()) == ["default", "eu", "us"]
    assert cast(Any, await pools.lookup.find(["shop/a", "a", "shop/b"], "1")) == ["eu", "default"]


@pytest.mark.parametrize("well", [("default",), ("eu",), ("default", "eu", "us"), ()])
async def test_the_process_is_ready_while_any_pool_is_well(pools: Pools, well: tuple[str, ...]) -> None:
    for name, service in pools.pools.items():
        finding = Finding("warning", f"of {name}")
        part = "broker" if name == "default" else f"{name}/broker"
        state = "ok" if name in well else "away"
        health = Health(ok=name in well, parts={part: state}, findings=[finding], policies=f"as in {name}")
        setattr(service, "own_health", partial(answered, health))  # noqa: B010 - it is a method
    told = await pools.health()
    assert told.ok == bool(well)
    assert {part for part, state in told.parts.items() if state == "ok"} == {
        "broker" if name == "default" else f"{name}/broker" for name in well
    }
    assert [one.says for one in told.findings] == ["of default", "pool eu: of eu", "pool us: of us"]
    assert told.policies == "as in default; pool eu: as in eu; pool us: as in us"


async def answered(health: Health) -> Health:
    return health


def test_every_way_has_a_topic_in_front_by_which_it_is_routed() -> None:
    service = Service(Settings())
    unrouted = set()
    for way in WAYS:
        for name, member in inspect.getmembers(type(getattr(service, way))):
            if name.startswith("_"):
                continue
            given = list(inspect.signature(member).parameters)[1:2] if callable(member) else []
            if given not in (["topic"], ["topics"], ["draft"], ["drafts"], ["subscription"]):
                unrouted.add(f"{way}.{name}")
    assert unrouted == OF_A_PROCESS | ACROSS
