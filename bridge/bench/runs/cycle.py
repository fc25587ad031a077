"""The whole way over HTTP: send, wait, pull, ack."""

from __future__ import annotations

from time import monotonic

from bridge.bench import client
from bridge.bench.bench import Bench

SAYS = (
    "Four senders with batches of 100 and a delay of 100 ms beside four consumers that pull 100 with a lease of 30 s "
    "and ack them in one request, through one bridge process; from the first send to the last ack."
)
_BATCH = 100
_SENDERS = 4
_CONSUMERS = 4


async def run(bench: Bench) -> None:
    await bench.stack.fresh()
    topic, left = bench.topic("cycle"), bench.size.cycle
    acked, last_ack_s = 0, 0.0
    async with client.opened(bench.stack.http_url, connections=_SENDERS + _CONSUMERS) as api:

        async def send() -> None:
            nonlocal left
            while (now := min(_BATCH, left)) > 0:
                batch = [{"id": str(at), "body": 0, "delay": 100} for at in range(left - now, left)]
                left -= now
                while batch:
                    batch = await api.offer_batch(topic, batch)

        async def consume() -> None:
            nonlocal acked, last_ack_s
            while acked < bench.size.cycle:
                pulled = await api.ask(f"/v1/topics/{topic}/pull", {"max": _BATCH, "wait": "1s", "lease": "30s"})
                if receipts := [message["receipt"] for message in pulled["messages"]]:
                    done = await api.ask(f"/v1/topics/{topic}/ack", {"receipts": receipts})
                    acked += sum(one["result"] == "acked" for one in done["results"])
                    last_ack_s = monotonic()

        await api.send_batch(topic, [{"body": 0, "delay": "1s"}])
        await api.ask(f"/v1/topics/{topic}/pull", {"wait": "30s"})
        before = bench.stack.cpu_s()
        started_s = monotonic()
        async with client.together() as group:
            for _ in range(_SENDERS):
                group.create_task(send())
            for _ in range(_CONSUMERS):
                group.create_task(consume())
        bench.add("cycle", acked / (last_ack_s - started_s), "messages/s")
        bench.add_cpu("cycle", before, acked)
