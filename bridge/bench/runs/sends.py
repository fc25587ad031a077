"""How many sends are accepted."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import orjson

from bridge.bench import client, loops
from bridge.bench.bench import Bench
from bridge.bench.bodies import BODY
from bridge.bench.client import CREATED, UNAVAILABLE, Answer, Api
from bridge.bench.errors import BenchError

SAYS = (
    "A closed loop. Single: one message a request over 64 connections; batches: 100 messages a request over 8 "
    "connections. Delays are random, 10-20 min. Accepted means confirmed by a quorum queue and recorded in Redis, "
    "both through to the disk. With one bridge process, then with more that share the port; `best` is the best of "
    "them."
)
_SINGLE_CONNECTIONS = 64
_BATCH_CONNECTIONS = 8
_BATCH = 100
_AIMS_SHORT_MS = 150  # the wheel releases a tenth of a second ahead of the moment, and a send takes a little
_BODIES = 200  # made ahead, so that the client has little to do


async def run(bench: Bench) -> None:
    single: dict[int, float] = {}
    batches: dict[int, float] = {}
    for processes in bench.processes(bench.size.processes):
        ending = "" if processes == 1 else f" {processes} processes"
        with bench.attempt(f"sends{ending}"):
            await bench.stack.fresh(processes=processes)
            single[processes], batches[processes] = await _sends(bench, ending)
    bench.add_best("sends single best", single, "messages/s", best=max)
    bench.add_best("sends in batches of 100 best", batches, "messages/s", best=max)


async def _sends(bench: Bench, ending: str) -> tuple[float, float]:
    topic = bench.topic("sends")
    path = f"/v1/topics/{topic}/messages"
    singles = [orjson.dumps(_message()) for _ in range(_BODIES)]
    batches = [orjson.dumps({"messages": [_message() for _ in range(_BATCH)]}) for _ in range(_BODIES)]
    async with client.opened(bench.stack.http_url, connections=_SINGLE_CONNECTIONS) as api:

        async def single() -> int:
            answer = await api.post(path, random.choice(singles))
            return _accepted(answer, int(answer.status == CREATED), 1)

        async def batch() -> int:
            answer = await api.post(f"{path}/batch", random.choice(batches))
            return _accepted(answer, answer.body.count(b'"status":201'), _BATCH)

        # A new topic's queues take a moment to settle: here, so that no send has to wait for it.
        await _declare_slots(api, topic)
        return (
            await _measure(bench, f"sends single{ending}", _SINGLE_CONNECTIONS, single),
            await _measure(bench, f"sends in batches of 100{ending}", _BATCH_CONNECTIONS, batch),
        )


def _accepted(answer: Answer, accepted: int, sent: int) -> int:
    """What was accepted. What was refused for now promises nothing, and is a send that was not made."""
    if accepted < sent and answer.status != UNAVAILABLE and b'"status":503' not in answer.body:
        raise BenchError(f"a send was answered {answer.status}: {answer.body[:300]!r}")
    return accepted


async def _measure(bench: Bench, name: str, clients: int, request: Callable[[], Awaitable[int]]) -> float:
    await loops.closed_loop(clients, bench.size.warm_s, request)
    before = bench.stack.cpu_s()
    per_s = await loops.closed_loop(clients, bench.size.sends_s, request)
    bench.add(name, per_s, "messages/s")
    bench.add_cpu(name, before, round(per_s * bench.size.sends_s))
    return per_s


async def _declare_slots(api: Api, topic: str) -> None:
    tenths, seconds, minutes = range(0, 1_000, 100), range(1_000, 60_000, 1_000), range(540_000, 1_200_001, 60_000)
    await api.send_batch(topic, [{"body": 0, "delay": _AIMS_SHORT_MS + ms} for ms in (*tenths, *seconds, *minutes)])


def _message() -> object:
    return {"body": BODY, "delay": random.randint(600_000, 1_200_000)}
