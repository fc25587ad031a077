"""Measures how many sends the bridge accepts per second."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from itertools import count

import orjson

from benchmarks import client, loops
from benchmarks.bench import Bench
from benchmarks.bodies import BODY, LARGE_BODY
from benchmarks.client import CREATED, UNAVAILABLE, Answer, Api
from benchmarks.errors import BenchError

SAYS = (
    "A closed loop. Single: one message a request over 64 connections. Batches: 100 messages a request over 8 "
    "connections. Delays are random, 10-20 min. In `batches of 100, one delay` all messages of a batch have the same "
    "delay, as with the peers. Accepted means that a quorum queue has confirmed the message and Redis has recorded "
    "it, both on the disk. The run uses one bridge process, then more that share the port; `best` is the best result. "
    "`single, ids given`: the caller chooses the id. `single, 10 kB`: bodies are fifty times as long."
)
_SINGLE_CONNECTIONS = 64
_BATCH_CONNECTIONS = 8
_BATCH = 100
_AIMS_SHORT_MS = 150  # the wheel releases a tenth of a second ahead of the moment, and a send takes a little
_LOADS = ("single", "in batches of 100", "in batches of 100, one delay")
_BODIES = 200  # made ahead, so that the client has little to do


async def run(bench: Bench) -> None:
    best: dict[str, dict[int, float]] = {}
    for processes in bench.processes(bench.size.processes):
        ending = "" if processes == 1 else f" {processes} processes"
        with bench.attempt(f"sends{ending}"):
            await bench.stack.fresh(processes=processes)
            for name, per_s in (await _sends(bench, ending)).items():
                best.setdefault(name, {})[processes] = per_s
            if processes == 1:
                await _other_singles(bench)
    for name in _LOADS:
        bench.add_best(f"sends {name} best", best.get(name, {}), "messages/s", best=max)


async def _other_singles(bench: Bench) -> None:
    """Measures single sends of other kinds, with one process."""
    path = f"/v1/topics/{bench.topic('sends')}/messages"
    numbers = count()
    given = orjson.dumps(_message(_random_delay_ms()))[1:]
    large = [orjson.dumps(_message(_random_delay_ms()) | {"body": LARGE_BODY}) for _ in range(_BODIES)]
    async with client.opened(bench.stack.http_url, connections=_SINGLE_CONNECTIONS) as api:

        async def send(body: bytes) -> int:
            answer = await api.post(path, body)
            return _accepted(answer, int(answer.status == CREATED), 1)

        async def given_id() -> int:
            return await send(b'{"id":"given-%d",%b' % (next(numbers), given))

        async def large_body() -> int:
            return await send(random.choice(large))

        await _measure(bench, "sends single, ids given", _SINGLE_CONNECTIONS, given_id)
        per_s = await _measure(bench, "sends single, 10 kB", _SINGLE_CONNECTIONS, large_body)
        bench.add("sends single, 10 kB beside 200 B", per_s / bench.value("sends single"), "x")


async def _sends(bench: Bench, ending: str) -> dict[str, float]:
    topic = bench.topic("sends")
    path = f"/v1/topics/{topic}/messages"
    singles = [orjson.dumps(_message(_random_delay_ms())) for _ in range(_BODIES)]
    batches = [_batch(_random_delay_ms() for _ in range(_BATCH)) for _ in range(_BODIES)]
    batches_of_one_delay = [_batch([_random_delay_ms()] * _BATCH) for _ in range(_BODIES)]
    async with client.opened(bench.stack.http_url, connections=_SINGLE_CONNECTIONS) as api:

        async def single() -> int:
            answer = await api.post(path, random.choice(singles))
            return _accepted(answer, int(answer.status == CREATED), 1)

        async def batch(bodies: Sequence[bytes]) -> int:
            answer = await api.post(f"{path}/batch", random.choice(bodies))
            return _accepted(answer, answer.body.count(b'"status":201'), _BATCH)

        # A new topic's queues take a moment to settle: here, so that no send has to wait for it.
        await _declare_slots(api, topic)
        loads: list[tuple[int, Callable[[], Awaitable[int]]]] = [
            (_SINGLE_CONNECTIONS, single),
            (_BATCH_CONNECTIONS, partial(batch, batches)),
            (_BATCH_CONNECTIONS, partial(batch, batches_of_one_delay)),
        ]
        return {
            name: await _measure(bench, f"sends {name}{ending}", connections, send)
            for name, (connections, send) in zip(_LOADS, loads, strict=True)
        }


def _accepted(answer: Answer, accepted: int, sent: int) -> int:
    """Returns the number of accepted messages. A 503 promises nothing, so its messages only do not count.

    Raises:
        BenchError: the bridge refused a message for another reason.
    """
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


def _message(delay_ms: int) -> dict[str, object]:
    return {"body": BODY, "delay": delay_ms}


def _batch(delays_ms: Iterable[int]) -> bytes:
    return orjson.dumps({"messages": [_message(delay_ms) for delay_ms in delays_ms]})


def _random_delay_ms() -> int:
    return random.randint(600_000, 1_200_000)
