"""Measures what each script costs Redis while many messages wait, and how much memory a waiting message takes.

`python -m tests.scale [WAITING …]` starts a private Redis for each number of waiting messages, one after the other. It
prints a table in Markdown (docs/redis.md).

The time is Redis' own (`INFO commandstats`), so it includes neither the network nor the disk. The waiting messages look
as the scripts write them: the scripts send one message, and its record is repeated under other ids.
"""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final, TypeVar

from ulid import ULID

from bridge.local.redis import RedisNode
from bridge.model.message import Envelope, Record, new_nonce
from bridge.model.values import Draft
from bridge.service.protocol.successors import first_copy
from bridge.store.calls import MOST, Call
from bridge.store.client import Store
from bridge.store.keys import Keys
from bridge.store.messages.records import Claim, Records
from bridge.store.replies import binary

TOPIC: Final = "orders"
DAY_MS: Final = 86_400_000
CALLS: Final = 2_000  # of each script
BATCH: Final = 50  # calls
GIVEN: Final = ", an id of the caller's"
LABEL: Final = "customer"
BODY: Final = b"\n" + b"x" * 200

# KEYS: start of the records' keys, index `waiting`, index of labels. ARGV: a record, first number, count, due moment of
# the first, and the labels' name or ''. Ten messages have the same value.
FILL: Final = """
for number = tonumber(ARGV[2]), ARGV[2] + ARGV[3] - 1 do
  local id = string.format('%026d', number)
  redis.call('SET', KEYS[1] .. id, ARGV[1])
  local due = ARGV[4] + (number * 7919) % 86400000
  redis.call('ZADD', KEYS[2], due, id)
  if ARGV[5] ~= '' then
    local label = string.format('%s=%d', ARGV[5], 10000 + math.floor(number / 10))
    redis.call('ZADD', KEYS[3], 0, string.format('%s\\n%013.0f%s', label, due, id))
  end
end
"""

Named = TypeVar("Named", Claim, Record)


@dataclass(kw_only=True)
class Scale:
    store: Store
    records: Records
    micros: dict[str, float] = field(default_factory=dict)

    async def memory(self) -> int:
        (info,) = await self.store.command_each("INFO", "memory")
        return _number(binary(info), "used_memory:")

    async def run(self, name: str, calls: Sequence[Call[Any]], at_once: int = 1) -> list[Any]:
        """Runs the calls and returns their answers. Notes the time of one call in microseconds, as Redis counts it. The
        time is the median over batches, because other work on the machine disturbs some of them. `at_once`: how many
        calls go together."""
        answers: list[Any] = []
        micros: list[float] = []
        for start in range(0, len(calls), BATCH * at_once):
            batch = calls[start : start + BATCH * at_once]
            await self.store.command_each("CONFIG", "RESETSTAT")
            parts = [batch[place : place + at_once] for place in range(0, len(batch), at_once)]
            for of_part in await asyncio.gather(*map(self.store.run, parts)):
                answers += of_part
            (info,) = await self.store.command_each("INFO", "commandstats")
            micros.append(_number(binary(info), r"cmdstat_evalsha:calls=\d+,usec=") / len(batch))
        self.micros[name] = median(micros)
        return answers

    async def each(
        self, name: str, found: Sequence[Named], call: Callable[[Named], Call[Any]], verdict: str, at_once: int = 1
    ) -> list[Record]:
        """Runs the call for each item, and checks the verdict. Returns the records as the script left them."""
        outcomes = await self.run(name, [call(one) for one in found], at_once)
        assert {outcome.verdict for outcome in outcomes} == {verdict}, {outcome.verdict for outcome in outcomes}
        return [outcome.found for outcome in outcomes]

    async def sent(
        self,
        *,
        named: str = "",
        body: bytes = BODY,
        delay_ms: int = 0,
        count: int = CALLS,
        at_once: int = 1,
        labels: str = "",
    ) -> list[Record]:
        """Sends `count` messages with both scripts of a send. `named` is appended to the scripts' names in the
        table."""
        records = self.records
        claims = [Claim(str(ULID()), ttl_ms=-1, max_retry=3, nonce=new_nonce(), by="-") for _ in range(count)]
        given_id = "given" if named == GIVEN else None
        draft = Draft(topic=TOPIC, envelope=Envelope(), id=given_id, delay_ms=delay_ms, labels=labels)
        schedule, confirm = partial(records.schedule, draft), partial(records.confirm, envelope=body)
        created = await self.each(f"schedule{named}", claims, schedule, "created", at_once)
        return await self.each(f"confirm{named}", created, confirm, "confirmed", at_once)

    async def fill(self, waiting: int, body: bytes, label: str = "") -> float:
        """Makes `waiting` messages wait, with this label. Returns the bytes of memory that each takes."""
        (one,) = await self.sent(body=body, delay_ms=DAY_MS, count=1, labels=f"{label}=10000" if label else "")
        key, _, index, *_, label_index = self.records.keys.record(TOPIC, one.id)
        stored, before = await self.store.command("GET", key), await self.memory()
        for start in range(0, waiting, 10_000):
            count = min(10_000, waiting - start)
            base = key.removesuffix(one.id)
            keys = (base, index, label_index)
            await self.store.command("EVAL", FILL, len(keys), *keys, stored, start, count, one.due_ms, label)
        return (await self.memory() - before) / waiting

    async def measure(self) -> None:
        """Measures every script, each with other messages."""
        records = self.records
        await self.sent(named=GIVEN)
        named = f", each of {MOST} together"
        many = await self.sent(named=named, count=MOST * BATCH * 5, at_once=MOST)
        many = await self.each(f"fire{named}", many, self._fire, "release", MOST)
        many = await self.each(f"lease{named}", many, self._lease, "leased", MOST)
        await self.each(f"ack{named}", many, self._ack, "acked", MOST)
        ready = await self.each("fire", await self.sent(), self._fire, "release")
        leased = await self.each("lease", ready, self._lease, "leased")
        leased = await self.each(
            "extend", leased, lambda one: records.extend(TOPIC, one.id, epoch=one.epoch, lease_ms=60_000), "extended"
        )
        await self.each("ack", leased[::2], self._ack, "acked")
        nacked = await self.each(
            "nack",
            leased[1::2],
            lambda one: records.nack(one, next_nonce=new_nonce(), due_ms=one.due_ms + DAY_MS, reason=""),
            "nacked",
        )
        moved = await self.each(
            "change",
            nacked,
            lambda one: records.change(
                one, next_nonce=new_nonce(), arrives_ms=one.due_ms + DAY_MS, due_ms=one.due_ms + DAY_MS
            ),
            "changed",
        )
        await self.each("delete", moved, lambda one: records.delete(TOPIC, one.id, release=True), "deleted")
        again = await self.each("fire", await self.sent(), self._fire, "release")
        back = await self.each(
            "returned", again, lambda one: records.returned(first_copy(one, Envelope()), by_ttl=False), "retry"
        )
        retried = await self.each(
            "retry",
            back,
            lambda one: records.retry(
                one, next_nonce=new_nonce(), due_ms=one.due_ms + DAY_MS, attempts=1, reason="rejected"
            ),
            "retried",
        )
        await self.each("look", retried, lambda one: records.look(TOPIC, one.id), "found")
        await self.each(
            "bury", retried, lambda one: records.bury(one, next_nonce=new_nonce(), attempts=1, reason=""), "buried"
        )
        middle = (retried[0].due_ms - DAY_MS // 2, "5")
        for name, cursor in (("page of 100, the first", None), ("page of 100, from the middle", middle)):
            page = records.page(TOPIC, 0, states="1", due_from_ms=0, due_to_ms=2**53, cursor=cursor, limit=100)
            await self.run(name, [page] * 500)
        await self.run("counts", [records.counts(TOPIC, 0, edges_ms=(60_000, 3_600_000, DAY_MS))] * 500)

    def _fire(self, one: Record) -> Call[Any]:
        return self.records.fire(first_copy(one, Envelope()), paused_ms=0, adopt=False)

    def _lease(self, one: Record) -> Call[Any]:
        return self.records.lease(
            first_copy(one, Envelope()), next_nonce=new_nonce(), lease_ms=30_000, arrives_in_ms=30_000
        )

    def _ack(self, one: Record) -> Call[Any]:
        return self.records.ack(TOPIC, one.id, epoch=one.epoch)


def _number(info: bytes, name: str) -> int:
    found = re.search(rf"^{name}(\d+)", info.decode(), re.MULTILINE)
    return int(found[1]) if found else 0


async def _scale(waiting: int, folder: Path) -> dict[str, float]:
    with RedisNode(folder, appendfsync="everysec") as node:
        store = Store(node.url, timeout_ms=60_000)
        keys = Keys("delay")
        scale = Scale(store=store, records=Records(keys=keys, retention_ms=3_600_000, tombstone_ms=7 * DAY_MS))
        try:
            # No measurement needs these messages on the disk, so writing them would only cost time.
            await store.command_each("CONFIG", "SET", "appendonly", "no")
            no_body = await scale.fill(waiting, b"")
            await store.command_each("FLUSHALL")
            with_label = await scale.fill(waiting, b"", LABEL)
            of_label = {"states": "1", "due_from_ms": 0, "due_to_ms": 2**53, "cursor": None, "limit": 100}
            labelled = scale.records.labelled(TOPIC, 0, labels=f"{LABEL}=10000", **of_label)
            await scale.run("labelled, of ten messages", [labelled] * 500)
            await store.command_each("FLUSHALL")
            with_body = await scale.fill(waiting, BODY)
            await scale.measure()
        finally:
            await store.close()
    return {
        **scale.micros,
        "bytes, no body kept": no_body,
        "bytes, a label": with_label,
        "bytes, a body of 200": with_body,
    }


def main(sizes: Sequence[int]) -> None:
    columns = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            columns.append(asyncio.run(_scale(size, Path(folder) / "redis")))
    print("| script, us |", *(f"{size:,} |" for size in sizes))
    print("|" + " --- |" * (len(sizes) + 1))
    for name in columns[0]:
        print(f"| {name} |", *(f"{column[name]:,.1f} |" for column in columns))


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or [10_000, 100_000, 1_000_000])
