"""Reads the state that Redis reports of itself, for an operator. Changes nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from time import time
from typing import Final

from bridge.model.errors import StoreRefused, StoreUnavailable
from bridge.store.client import Store
from bridge.store.eviction import fields_of
from bridge.store.kept.topic_list import TopicList
from bridge.store.keys import Keys
from bridge.store.replies import Reply, binary, fields, maybe, whole

_PARAMETERS: Final = ("appendfsync", "save")
_LOGIN_CODES: Final = ("NOAUTH", "WRONGPASS")


class StoreLoginRefused(StoreUnavailable):
    """Redis refuses the password, or requires one and got none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerState:
    """The state that one server reports of itself. `info`: the fields of INFO. `config`: the parameters of CONFIG GET.
    Each is empty if Redis refuses the command (some managed servers do)."""

    info: Mapping[str, str]
    config: Mapping[str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Inspection:
    """The reports of all servers. `ahead_ms`: a lower and an upper bound, in ms: how far Redis' clock is ahead of this
    machine's clock. `buckets`: how many buckets each topic's index has; None: no bridge has set this number yet.
    `topics`: the names of all topics."""

    servers: tuple[ServerState, ...]
    ahead_ms: tuple[float, float]
    buckets: int | None
    topics: tuple[str, ...]


async def inspect(store: Store, keys: Keys) -> Inspection:
    """Returns what every Redis server reports: its state, its clock and the messages' index.

    Raises:
        StoreLoginRefused: Redis refuses the password, or requires one and got none.
        StoreUnavailable: Redis did not answer.
    """
    try:
        await store.learn_clock()
    except StoreRefused as error:
        if error.code in _LOGIN_CODES:
            raise StoreLoginRefused(str(error)) from error
        raise
    here_ms, latest_ms = time() * 1_000, store.clock.latest_ms()
    low_ms = store.clock.now_ms() - here_ms
    infos = [fields_of(binary(info)) for info in await _unless_refused(store.command_each("INFO"))]
    configs = [_texts(config) for config in await _unless_refused(store.command_each("CONFIG", "GET", *_PARAMETERS))]
    pairs: Iterable[tuple[dict[str, str], dict[str, str]]] = zip_longest(infos, configs, fillvalue={})
    buckets = await store.command("GET", keys.index_buckets)
    return Inspection(
        servers=tuple(ServerState(info=info, config=config) for info, config in pairs),
        ahead_ms=(low_ms, low_ms if latest_ms is None else latest_ms - here_ms),
        buckets=maybe(whole, buckets),
        topics=tuple(await TopicList(store, keys).names()),
    )


async def _unless_refused(asked: Awaitable[list[Reply]]) -> list[Reply]:
    """Returns the answers of all servers; an empty list if a server refuses the command. `asked`: the command under
    way."""
    try:
        return await asked
    except StoreRefused:
        return []


def _texts(answer: Reply) -> dict[str, str]:
    return {name: value.decode() for name, value in fields(answer).items()}
