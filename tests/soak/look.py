"""Reads the state of the servers: what Redis, RabbitMQ, the operating system and the bridge know."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import httpx2
from redis.asyncio import Redis

from tests.soak.stage import Stage
from tests.soak.state import Kind, State
from tests.soak.topics import PASSING

_FIXED: Final = re.compile(r'(?:le|code|script|reason)="[^"]*",?')  # few values, which no load can add to
_TOPIC: Final = re.compile(r'topic="([^"]*)"')


async def look(stage: Stage) -> State:
    """Returns the state now. What the bridge's process holds is read first, as a scrape would be among its tasks and
    open files."""
    inside = await stage.bridge.inside()
    ports = {stage.rabbit.port: "RabbitMQ", stage.redis.port: "Redis", stage.bridge.port: "a client"}
    files = await asyncio.to_thread(open_files, stage.bridge.pid, ports)
    resident = _resident(stage.bridge.pid)
    # The scrape makes Redis count each topic, which removes expired messages from its indexes.
    async with httpx2.AsyncClient(timeout=60) as client:
        scraped = (await client.get(f"{stage.bridge.url}/metrics", headers={"connection": "close"})).raise_for_status()
    return {
        Kind.KEY: await _keys(stage.redis.url),
        **await _of_rabbit(stage.rabbit.management_url),
        Kind.FILE: files,
        Kind.THREAD: inside["threads"],
        Kind.TASK: inside["tasks"],
        Kind.LABELS: labels(scraped.text),
        Kind.ENTRIES: inside["entries"],
        Kind.OBJECTS: inside["objects"],
        Kind.MEMORY: {"resident": resident, **inside["memory"]},
    }


def labels(text: str) -> Counter[str]:
    """Returns the labels of all series, without those of removed topics, which stay (docs/operating/sizing.md), and
    without labels of fixed values."""
    found = {_FIXED.sub("", part) for part in re.findall(r"\{(.*)\} [^ ]+$", text, re.MULTILINE)} - {""}
    return Counter(part for part in found if not ((topic := _TOPIC.search(part)) and topic[1].startswith(PASSING)))


def open_files(pid: int, ports: Mapping[int, str]) -> Counter[str]:
    """Returns the open files of a process. A socket is named by the server of its remote or its own port."""
    sockets = _sockets(pid, ports)
    names: Counter[str] = Counter()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(link.readlink())
        except FileNotFoundError:  # closed meanwhile
            continue
        kind, _, inode = target.partition(":")
        names[sockets.get(inode.strip("[]"), "socket") if kind == "socket" else kind if kind == "pipe" else target] += 1
    return names


def _sockets(pid: int, ports: Mapping[int, str]) -> dict[str, str]:
    """Returns the names of the TCP sockets by inode."""
    named = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            (
                _,
                local,
                remote,
                state,
                *_,
            ) = line.split()
            inode = line.split()[9]
            own, other = (int(address.rpartition(":")[2], 16) for address in (local, remote))
            if state == "0A":
                named[inode] = f"socket that listens for {ports.get(own, own)}"
            else:
                named[inode] = f"socket to {ports.get(other) or ports.get(own) or f'port {other}'}"
    return named


def _resident(pid: int) -> int:
    (line,) = re.findall(r"^VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(line) * 1_024


async def _keys(url: str) -> Counter[str]:
    """Returns each key, and each member of a key."""
    names: Counter[str] = Counter()
    async with Redis.from_url(url, decode_responses=True) as redis:
        async for key in redis.scan_iter(count=1_000):
            names[key] += 1
            names.update(f"{key} {member}" for member in await _members(redis, key))
    return names


async def _members(redis: Any, key: str) -> Iterable[str]:
    found: Iterable[str] = ()
    match await redis.type(key):
        case "hash":
            found = await redis.hkeys(key)
        case "set":
            found = await redis.smembers(key)
        case "zset":
            found = await redis.zrange(key, 0, -1)
    return found


async def _of_rabbit(url: str) -> dict[Kind, Counter[str]]:
    async with httpx2.AsyncClient(base_url=f"{url}/api/", timeout=60) as client:

        async def listed(what: str, columns: str = "") -> list[dict[str, Any]]:
            answer = await client.get(what, params={"columns": columns} if columns else {})
            found: list[dict[str, Any]] = answer.raise_for_status().json()
            return found

        queues = await listed("queues", "name,messages")
        names = {one["name"] for one in queues}  # the management still lists consumers of deleted queues
        bindings = await listed("bindings")
        return {
            Kind.QUEUE: Counter({one["name"]: 1 + one.get("messages", 0) for one in queues}),
            Kind.EXCHANGE: Counter(one["name"] for one in await listed("exchanges", "name")),
            Kind.BINDING: Counter(f"{one['source']} {one['routing_key']} {one['destination']}" for one in bindings),
            Kind.CONNECTION: Counter(_peer(one) for one in await listed("connections")),
            Kind.CHANNEL: Counter(_use(one) for one in await listed("channels")),
            Kind.CONSUMER: Counter(
                name for one in await listed("consumers") if (name := one["queue"]["name"]) in names
            ),
        }


def _peer(connection: dict[str, Any]) -> str:
    return str(connection.get("client_properties", {}).get("connection_name", "without a name"))


def _use(channel: dict[str, Any]) -> str:
    """What a channel is for. Its number may differ from round to round."""
    return "for publishing" if channel.get("confirm") else "for other calls"
