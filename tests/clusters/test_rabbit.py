"""Tests a cluster of three RabbitMQ nodes that loses one node or two.

The loss of one node delays sends for seconds. The loss of two refuses them. Neither loses a message.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from bridge.local.ports import free_ports
from bridge.local.rabbit_cluster import RabbitCluster
from bridge.local.rabbitmq import RabbitNode
from bridge.model.ulids import new_ulid
from tests.events import What
from tests.fault.api import Api
from tests.fault.consumers import ended, over_amqp, over_http
from tests.fault.load import Load
from tests.fault.stage import killed, start_all, started
from tests.fault.whereabouts import raft_states, whereabouts
from tests.forked_bridge import ForkedBridge
from tests.history import History
from tests.matrix.servers import Servers
from tests.waiting import pause

# A quiet machine takes one to six seconds, and one that is busy with other tests up to thirteen. A node that the others
# only miss, and do not see end, takes a minute (net_ticktime).
GOES_ON_WITHIN_S = 30.0
AUDITED_WITHIN_S = 200.0  # after a lost node a slot may keep some messages, until the audit sends them again
RATE_PER_S = 12  # each node leads a third of the slots, so some messages are on their way through each of them
MAX_RETRY = 3
PULLED, CONSUMED, PROBED, STRANDED = "pulled", "consumed", "probed", "stranded"
LOOKED_EVERY_S = 1.0  # a bridge judges its health once a second (bridge/service/health/lookout.py)
TO_ALL_NODES_MS = range(0, 8_000, 500)  # delays that begin in queues of which each node leads some


class Scene:
    """Three nodes, a Redis, and two bridges that have the URLs of all nodes."""

    def __init__(self, folder: Path, servers: Servers) -> None:
        self.cluster = RabbitCluster(folder / "rabbitmq", installation=servers.rabbitmq_installation)
        self.redis = servers.redis_node(folder / "redis", appendfsync="always")
        self.amqp_urls = ",".join(self.cluster.amqp_urls)
        settings = {
            "BRIDGE_AMQP_URL": self.amqp_urls,
            "BRIDGE_REDIS_URL": self.redis.url,
            "BRIDGE_MAX_RETRY": str(MAX_RETRY),
        }
        logs = [folder / f"bridge-{number}" / "bridge.log" for number in range(2)]
        self.bridges = [ForkedBridge(log, free_ports(1)[0], settings) for log in logs]

    def start(self) -> None:
        self.redis.start()
        self.cluster.start()
        start_all(*self.bridges)

    def kill(self) -> None:
        for bridge in self.bridges:
            bridge.kill()
        self.cluster.kill()
        self.redis.kill()

    def leaders(self) -> dict[str, str]:
        """The name of the node that leads each queue."""
        node = next(node for node in self.cluster.nodes if node.running)
        # `rabbitmqctl list_queues` would take seconds of CPU, as it asks each member of each queue.
        pair = "{binary_to_atom(element(4, amqqueue:get_name(Queue))), element(2, amqqueue:get_pid(Queue))}"
        said = node.evaluate(f"[{pair} || Queue <- rabbit_amqqueue:list()]")
        return dict(re.findall(r"\{'?(.+?)'?,\s*(\S+?)\}", said))

    def strand(self, queue: str) -> None:
        """Ends the queue's processes on all nodes, until RabbitMQ no longer starts them again."""
        processes, pause = f"element(1, rpc:multicall(erlang, whereis, ['%2F_{queue}']))", "timer:sleep(300)"
        ends = f"[begin [exit(P, kill) || P <- {processes}, is_pid(P)], {pause} end || _ <- lists:seq(1, 9)]"
        left = self.cluster.nodes[0].evaluate(f"{ends}, {processes}")
        assert left.count("undefined") == len(self.cluster.nodes), left

    def has_stranded_queues(self) -> bool:
        """Whether a node has lost the supervisor of its dead-letter workers. Each queue that such a node begins to lead
        crashes (rabbitmq-server #16652)."""
        running = [node for node in self.cluster.nodes if node.running]
        return any(node.evaluate("whereis(rabbit_fifo_dlx_sup)") == "undefined" for node in running)

    async def restarts(self) -> AsyncIterator[RabbitNode]:
        """Restarts the running nodes in turn, and yields each."""
        for node in [node for node in self.cluster.nodes if node.running]:
            await asyncio.to_thread(node.stop)
            await started(node)
            yield node

    def by_checkpoint(self) -> list[RabbitNode]:
        """The nodes. The first is the leader of the checkpoint's queue."""
        leading = self.leaders()["delay.checkpoint"]
        return sorted(self.cluster.nodes, key=lambda node: node.node_name != leading)


@pytest.fixture(scope="module")
def scene(local_dir: Path, servers: Servers) -> Iterator[Scene]:
    scene = Scene(local_dir / "cluster", servers)
    try:
        scene.start()
        yield scene
    finally:
        scene.kill()


@pytest_asyncio.fixture
async def own() -> AsyncIterator[httpx2.AsyncClient]:
    """A client whose connections no other call uses."""
    async with httpx2.AsyncClient(timeout=httpx2.Timeout(10, connect=None)) as client:
        yield client


class Probe:
    """Sends through each bridge to queues of every leader: to the ready queue at once, and through sixteen slots."""

    def __init__(self, apis: Sequence[Api]) -> None:
        self._apis = apis

    async def accepted(self) -> float:
        """Sends to all queues. Returns the seconds until each send was accepted."""
        began_s = monotonic()
        sends = [api.sent(PROBED, new_ulid(), delay=delay_ms) for api in self._apis for delay_ms in TO_ALL_NODES_MS]
        await asyncio.gather(*sends)
        return monotonic() - began_s

    async def accepted_after_start(self, scene: Scene, *nodes: RabbitNode) -> None:
        """Begins to send to all queues, and starts the nodes. Returns once each send was accepted. If RabbitMQ has
        stranded queues, restarts its nodes in turn, as an operator would."""
        async with asyncio.TaskGroup() as group:
            sending = group.create_task(self.accepted())
            await started(*nodes)
            await asyncio.wait((sending,), timeout=GOES_ON_WITHIN_S)
            if not sending.done() and await asyncio.to_thread(scene.has_stranded_queues):
                async for _ in scene.restarts():
                    pass


def stalled(api: Api) -> list[Coroutine[Any, Any, httpx2.Response]]:
    return [api.send(PROBED, new_ulid(), delay=delay_ms) for delay_ms in TO_ALL_NODES_MS]


@pytest.mark.timeout(600)
async def test_loss_of_one_node_delays_sends_and_loss_of_two_refuses_them_until_one_returns(
    scene: Scene, http: httpx2.AsyncClient, own: httpx2.AsyncClient
) -> None:
    apis = [Api(http, bridge.url) for bridge in scene.bridges]
    probe = Probe([Api(own, bridge.url) for bridge in scene.bridges])
    leaders = list((await asyncio.to_thread(scene.leaders)).values())
    shares = [leaders.count(node.node_name) for node in scene.cluster.nodes]
    assert min(shares) > len(leaders) / 4
    history = History(MAX_RETRY)
    load = Load(apis[0], history, [PULLED, CONSUMED], rate_per_s=RATE_PER_S, seed=1, delay_ms=(0, 8_000))
    consumers = [
        *(asyncio.create_task(over_http(api, PULLED, history, lease_ms=3_000)) for api in apis),
        asyncio.create_task(over_amqp(scene.amqp_urls, f"ready.{CONSUMED}", history)),
    ]
    stop = asyncio.Event()
    sending = asyncio.create_task(load.run(stop))
    try:
        await probe.accepted()
        await history.more_accepted(3 * RATE_PER_S, within_s=30)
        leading, second, third = await asyncio.to_thread(scene.by_checkpoint)

        leading.freeze()
        # Its queues accept no message until the other nodes consider it down. Each send is new: an id that was
        # accepted is answered from Redis.
        while 503 not in {answer.status_code for answer in await asyncio.gather(*stalled(apis[0]))}:
            await pause()
        await killed(leading)
        assert await probe.accepted() < GOES_ON_WITHIN_S
        await started(leading)

        await killed(second, third)
        answers = await asyncio.gather(*(api.send(PROBED, f"lost-{n}", delay=500) for n in range(10) for api in apis))
        assert {answer.status_code for answer in answers} == {503}
        try:
            await probe.accepted_after_start(scene, second)
        except* TimeoutError as errors:
            raise AssertionError(f"{errors.exceptions}\n{await raft_states(scene.cluster.nodes)}") from None
        await started(third)

        await history.more_accepted(RATE_PER_S, within_s=30)
        stop.set()
        await sending
        await history.nothing_lost(within_s=AUDITED_WITHIN_S)
        await load.marks()
        await history.nothing_lost(within_s=AUDITED_WITHIN_S)
    finally:
        await ended(sending, *consumers)
    assert history.accepted_count == len(history.counts(What.SENDING)) > 10 * RATE_PER_S
    assert history.verdict().wrong == {}, await whereabouts(history, apis[0], [PULLED, CONSUMED], *scene.cluster.nodes)


@pytest.mark.timeout(600)
async def test_nodes_restarted_in_turn_start_a_stranded_queue_and_leave_bridges_ready_that_take_sends(
    scene: Scene, http: httpx2.AsyncClient, own: httpx2.AsyncClient
) -> None:
    apis = [Api(own, bridge.url) for bridge in scene.bridges]
    probe = Probe(apis)
    await started(*scene.cluster.nodes)  # some are down if an earlier test failed
    await probe.accepted()
    await apis[0].sent(STRANDED, "kept", delay=2_000)
    while (await apis[0].look(STRANDED, "kept"))["state"] != "ready":
        await pause()
    await asyncio.to_thread(scene.strand, f"ready.{STRANDED}")

    for api in apis:
        while f"last minute: ready.{STRANDED} (" not in (await api.insist("GET", "/health/ready")).text:
            # Accepted if the queue is young for the bridge: then the message goes through the checkpoint.
            assert (await api.send(STRANDED, new_ulid())).status_code in (201, 503)
            await pause()
        assert (await api.sent(PROBED, new_ulid(), delay=500))["state"] == "waiting"

    refusals: list[str] = []
    watching = [asyncio.create_task(watched(Api(http, bridge.url), refusals)) for bridge in scene.bridges]
    try:
        async for _ in scene.restarts():
            await probe.accepted()
    finally:
        await ended(*watching)
    assert refusals == []
    await apis[0].sent(STRANDED, "sent again")
    pulled: set[str] = set()
    while not pulled >= {"kept", "sent again"}:
        pulled |= {one["id"] for one in await apis[0].pull(STRANDED, wait_ms=5_000)}


async def watched(api: Api, refusals: list[str]) -> None:
    """Notes when a bridge was not ready before and after sends to each node's queues that all succeeded."""
    before = await api.call("GET", "/health/ready")
    while True:
        sends = await asyncio.gather(*stalled(api))
        after = await api.call("GET", "/health/ready")
        not_ready = before.status_code == after.status_code == 503
        if not_ready and all(sent.status_code == 201 for sent in sends):
            refusals.append(after.text)
        before = after
        await pause(LOOKED_EVERY_S)
