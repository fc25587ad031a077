"""Runs calls on Redis in pipelines and translates redis-py's errors. Modules outside `bridge/store/servers/` reach
Redis only through this module."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from ssl import SSLContext
from time import monotonic
from typing import Any, Final, TypeVar, cast

import structlog
from redis.exceptions import NoScriptError, RedisError

from bridge.metrics.store import COMMAND, answered, failed
from bridge.model.breaker import Breaker
from bridge.model.errors import StoreRefused, StoreUnavailable, StoreUnfit, UnnamedVerdict
from bridge.store.calls import Call, answers_of, as_one, is_late, plain, together
from bridge.store.clock import StoreClock
from bridge.store.keys import Keys
from bridge.store.messages.outcomes import NoRule
from bridge.store.replies import Reply, whole
from bridge.store.scripts import SCRIPTS
from bridge.store.servers.connect import connect
from bridge.store.servers.refusals import unavailable
from bridge.store.servers.servers import PackedCommand, pack
from bridge.store.unnamed import Unnamed

Answer = TypeVar("Answer")
Other = TypeVar("Other")

log = structlog.get_logger(__name__)

_PROBE_ENDS_MS: Final = 10_000
_FAULTS_EVERY_S: Final = 60.0


class _SomeUnnamed(UnnamedVerdict):
    """This version does not know some of the answers. `answers`: one item for each call, in order: the answer that was
    read, or an UnnamedVerdict for an unknown answer."""

    def __init__(self, answers: list[object]) -> None:
        super().__init__(str(next(answer for answer in answers if isinstance(answer, UnnamedVerdict))))
        self.answers = answers


class Store:
    """Redis, its scripts and its clock.

    A call about a message carries a time limit, as a moment of Redis' clock. A script that starts after this moment
    changes nothing. So a call that the network held back takes no effect after its time limit.

    The store does not retry a failed call, because the call may have run. Callers may retry it, because scripts are
    idempotent. The store retries only calls that a server has certainly not run. There are three cases: the script was
    missing, another server has the key, or Redis' clock had jumped, so the call only seemed late. While a server's
    breaker refuses calls, calls for keys of this server fail at once.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_ms: int,
        tls: SSLContext | None = None,
        keys: Keys | None = None,
        clock: StoreClock | None = None,
        unnamed: Unnamed | None = None,
    ) -> None:
        """`keys`: the names of the messages' keys. Before the first script that uses a topic's index, `agree` compares
        the number of index buckets in `keys` with the number in Redis. None: no comparison. `timeout_ms`: the time
        limit of a call. `clock`, `unnamed`: objects that another store of this Redis shares with this one. None: new
        objects.

        Raises:
            ValueError: the URL is malformed (`settings/redis_url.py` lists its forms).
        """
        self.clock = clock or StoreClock()
        self._servers = connect(url, self.clock, timeout_s=timeout_ms / 1_000, tls=tls)
        self._timeout_s = timeout_ms / 1_000
        self._keys = keys
        self._agreed = keys is None
        self.unnamed = unnamed or Unnamed()
        self._next_fault_s = -inf

    @property
    def breaker(self) -> Breaker:
        """The breaker of the server, which refuses calls while the server does not answer. With several servers, it is
        the breaker in the worst state (open, then half open, then closed)."""
        return max(self._servers.breakers, key=lambda breaker: breaker.state, default=Breaker())

    @property
    def troubled_s(self) -> float:
        """The moment of `monotonic()` at which a call to any server last failed or had no answer in time. `-inf`: there
        was none."""
        return max((breaker.troubled_s for breaker in self._servers.breakers), default=-inf)

    async def run(self, calls: Sequence[Call[Answer]], until_s: float | None = None) -> list[Answer]:
        """Runs the calls in one round trip, and returns the answers of their scripts in the same order. The calls of
        one message run in order. If a server has lost a script, the calls of that script run after the others.

        `until_s`: the moment of `monotonic()` after which no call about a message takes effect. None: the time limit of
        the store, from now.

        Raises:
            StoreUnavailable: some of the calls may have run.
            UnnamedVerdict: all calls have run, and a script's answer to one of them is unknown to this version.
        """
        if not calls:
            return []
        if not self._agreed and calls[0].script.of_index:
            await self.agree()
        if not self.clock.known and calls[0].script.of_record:
            await self.learn_clock()
        if until_s is None:
            until_s = monotonic() + self._timeout_s
        groups = together(calls)
        merged = [as_one([calls[at] for at in group]) for group in groups]
        answers: dict[int, Reply] = {}
        for group, call, answer in zip(groups, merged, await self._in_time(merged, until_s), strict=True):
            answers |= zip(group, answers_of(call, answer), strict=True)
        try:
            return [call.read(call, answers[at]) for at, call in enumerate(calls)]
        except NoRule:
            raise self._without_rule(calls, answers) from None

    async def run_each(
        self, calls: Sequence[Call[Answer]], until_s: float | None = None
    ) -> Sequence[Answer | UnnamedVerdict]:
        """Runs the calls in one round trip, and returns their answers in order. Returns an UnnamedVerdict in place of
        an answer that this version does not know.

        `until_s`: the moment of `monotonic()` after which no call about a message takes effect; None: the time limit of
        the store.

        Raises:
            StoreUnavailable: some of the calls may have run.
        """
        try:
            return await self.run(calls, until_s)
        except _SomeUnnamed as error:
            return cast("list[Answer | UnnamedVerdict]", error.answers)

    async def run_both(self, one: Call[Answer], other: Call[Other]) -> tuple[Answer, Other]:
        """Runs two calls of different scripts in one round trip, and returns both answers. Raises the errors of
        `run`."""
        both: list[Any] = await self.run([one, other])
        return both[0], both[1]

    def _without_rule(self, calls: Sequence[Call[object]], answers: Mapping[int, Reply]) -> _SomeUnnamed:
        read: list[object] = []
        for at, call in enumerate(calls):
            try:
                read.append(call.read(call, answers[at]))
            except NoRule as unnamed:
                read.append(self.unnamed.note(unnamed, self._servers.title))
        return _SomeUnnamed(read)

    async def _in_time(self, calls: Sequence[Call[object]], until_s: float) -> list[Reply]:
        answers = await self._run(calls, until_s)
        late = [at for at, call in enumerate(calls) if is_late(call, answers[at])]
        if late and monotonic() < until_s:
            # The clock of Redis has jumped, and these answers have corrected ours.
            for at, answer in zip(late, await self._run([calls[at] for at in late], until_s), strict=True):
                answers[at] = answer
            late = [at for at in late if is_late(calls[at], answers[at])]
        if late:
            raise StoreUnavailable(f"{self._servers.title} got the call too late, and changed nothing: try again")
        return answers

    async def _run(self, calls: Sequence[Call[object]], until_s: float) -> list[Reply]:
        scripts = {call.script.name for call in calls}
        began_s = monotonic()
        try:
            answers = await self._evaluate(calls, until_s)
        except StoreUnavailable as error:
            failed(scripts)
            self._log_fault(error)
            raise
        answered(scripts, monotonic() - began_s)
        return answers

    async def _evaluate(self, calls: Sequence[Call[object]], until_s: float) -> list[Reply]:
        until_ms = int(self.clock.fastest_ms(until_s))
        timed = calls[0].script.of_record
        with _translated(self._servers.title):
            answers = await self._servers.ask([_evalsha(call, until_ms) for call in calls], timed=timed)
            missing = [at for at, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
            if missing:
                # Loads a script once for each last key of its calls, which names the server: once a topic, or a joined
                # call.
                loads = {(calls[at].script.name, calls[at].keys[-1]) for at in missing}
                again = [*(_load(*load) for load in loads), *(_evalsha(calls[at], until_ms) for at in missing)]
                for at, answer in zip(missing, (await self._servers.ask(again))[len(loads) :], strict=True):
                    answers[at] = answer
            return _without_errors(answers)

    async def agree(self) -> None:
        """Makes sure that all bridges with this Redis and prefix use the same number of index buckets.

        Raises:
            StoreUnfit: Redis holds another number.
            StoreUnavailable: Redis did not answer.
        """
        if self._keys is None:
            return
        key, own = self._keys.index_buckets, self._keys.buckets
        # GET first: a full Redis still answers reads.
        stored = await self.command("GET", key) or await self.command("SET", key, own, "NX", "GET")
        if stored is not None and (found := whole(stored)) != own:
            raise StoreUnfit(
                f"{self._servers.title} has the index in {found} buckets, but BRIDGE_INDEX_BUCKETS is {own}: set it to "
                f"{found}. To change to {own}, consume all messages, stop every bridge and delete the key {key}; or "
                "choose another BRIDGE_REDIS_PREFIX"
            )
        self._agreed = True

    async def learn_clock(self, keys: Sequence[str] = ()) -> None:
        """Asks Redis for its time, which sets the clock and shows whether Redis answers. With `keys` it asks the
        servers of these keys, and all must answer. Without keys it asks all servers, and one answer is enough.

        Raises:
            StoreUnavailable: a server that must answer did not answer.
        """
        with _translated(self._servers.title):
            await self._servers.learn_time(keys)

    async def command(self, *words: Any) -> Reply:
        """Runs one plain command and returns the raw answer. The word after the command's name is a key.

        Raises:
            StoreUnavailable: Redis refused the command, or did not answer, and the command may have run.
        """
        (answer,) = await self.commands([words])
        return answer

    async def command_each(self, *words: Any) -> list[Reply]:
        """Runs one plain command on every server, and returns one raw answer for each server.

        Raises:
            StoreUnavailable: a server refused the command, or did not answer.
        """
        with _translated(self._servers.title):
            return _without_errors(await self._servers.ask_each(pack("", *words)))

    async def commands(self, commands: Sequence[Sequence[Any]]) -> list[Reply]:
        """Runs plain commands in one round trip, and returns their raw answers in the same order. The word after each
        command's name is a key. Commands of one key run in order.

        Raises:
            StoreUnavailable: Redis refused a command, or did not answer; some of the commands may have run.
        """
        began_s = monotonic()
        try:
            with _translated(self._servers.title):
                answers = _without_errors(await self._servers.ask([_plain(words) for words in commands]))
        except StoreUnavailable as error:
            failed((COMMAND,))
            self._log_fault(error)
            raise
        answered((COMMAND,), monotonic() - began_s)
        return answers

    async def probe(self) -> list[StoreUnavailable]:
        """Checks that every server takes writes. A script writes to probe keys as a send writes to message keys, and
        Redis removes the probe keys again. Uses the connections that all other calls use.

        Returns:
            The errors of the servers that failed, if others succeeded.

        Raises:
            StoreUnavailable: every server failed.
            StoreUnfit: Redis holds an index with another number of buckets.
        """
        if self._keys is None:
            return []
        if not self._agreed:
            await self.agree()
        with _translated(self._servers.title):
            keys = await self._servers.key_on_each(self._keys.probe)
        ended = await asyncio.gather(*(self.run([probe_call(key)]) for key in keys), return_exceptions=True)
        errors = [error for error in ended if isinstance(error, BaseException)]
        away = [error for error in errors if isinstance(error, StoreUnavailable)]
        if len(away) < len(errors):
            raise next(error for error in errors if not isinstance(error, StoreUnavailable))
        if len(away) == len(ended):
            raise away[0]
        return away

    def by_server(self, keys: Sequence[str]) -> list[list[int]]:
        """Groups the keys by server. Returns lists of indexes into `keys`.

        Calls in one round trip fail together. So callers make one round trip for each server. Then a server that is
        away blocks only calls of its keys.
        """
        return self._servers.by_server(keys)

    async def close(self) -> None:
        await self._servers.close()

    def _log_fault(self, error: StoreUnavailable) -> None:
        if not isinstance(error, StoreRefused) or not error.is_fault or monotonic() < self._next_fault_s:
            return
        self._next_fault_s = monotonic() + _FAULTS_EVERY_S
        log.error("store.refused", code=error.code, reason=str(error))


def probe_call(key: str) -> Call[int]:
    """Builds the call of `probe.lua`, with which `Store.probe` checks that Redis takes writes. `key`: from
    `Keys.probe`."""
    return Call(SCRIPTS["probe"], plain(whole), (key, f"{key}/set"), (_PROBE_ENDS_MS,))


def _evalsha(call: Call[object], until_ms: int) -> PackedCommand:
    args = call.args_until(until_ms)
    return pack(call.keys[0], "EVALSHA", call.script.sha, len(call.keys), *call.keys, *args)


def _load(script_name: str, key: str) -> PackedCommand:
    return pack(key, "SCRIPT", "LOAD", SCRIPTS[script_name].text)


def _plain(words: Sequence[Any]) -> PackedCommand:
    return pack(str(words[1]), *words)


def _without_errors(answers: list[Reply]) -> list[Reply]:
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return answers


@contextmanager
def _translated(title: str) -> Iterator[None]:
    try:
        yield
    except (RedisError, OSError, TimeoutError) as error:
        raise unavailable(title, error) from error
