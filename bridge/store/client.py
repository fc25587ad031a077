"""The one place where Redis is asked: runs calls in pipelines and translates the client's errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ssl import SSLContext
from typing import Any

from hiredis import pack_command
from redis.exceptions import NoScriptError, RedisError, ResponseError

from bridge.model.breaker import Breaker
from bridge.model.errors import StoreUnavailable, StoreUnfit
from bridge.settings.tls import tls_failure
from bridge.store.calls import Call, answers_of, as_one, together
from bridge.store.clock import StoreClock
from bridge.store.keys import Keys
from bridge.store.scripts import SCRIPTS
from bridge.store.servers.connect import connect
from bridge.store.servers.servers import Question, packed

# Answers of a Redis that can't take writes now; anything else it refuses is a fault of ours.
_PASSING = frozenset(
    ("OOM", "MISCONF", "READONLY", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "NOREPLICAS", "BUSY", "TRYAGAIN", "NOSCRIPT")
)


class Store:
    """Redis, its scripts, and its clock.

    Nothing is sent a second time by itself: a call that failed may have run, and the scripts are safe to run again.
    Only what a server said it has not run is: for want of the script, or because the key lives elsewhere. While a
    server's breaker refuses, calls of its keys fail at once.
    """

    def __init__(self, url: str, *, timeout_ms: int, tls: SSLContext | None = None, keys: Keys | None = None) -> None:
        """`keys`: those that messages are kept under; no script of a message runs before their buckets are agreed on.

        Raises:
            ValueError: the URL is malformed (`servers/address.py` has its forms).
        """
        self.clock = StoreClock()
        self._servers = connect(url, self.clock, timeout_s=timeout_ms / 1_000, tls=tls)
        self._keys = keys
        self._agreed = keys is None

    @property
    def breaker(self) -> Breaker:
        """The one that refuses most, where there are several servers."""
        return max(self._servers.breakers, key=lambda breaker: breaker.state, default=Breaker())

    async def run(self, calls: Sequence[Call]) -> list[Any]:
        """Runs the calls in one round trip, those of a message in order; their answers as the scripts gave them. Those
        whose script a server has lost run behind the others.

        Raises:
            StoreUnavailable: some of them may have run.
        """
        if not calls:
            return []
        if not self._agreed and calls[0].script.of_index:
            await self.agree()
        groups = together(calls)
        asked = [as_one([calls[at] for at in group]) for group in groups]
        answers: dict[int, Any] = {}
        for group, call, answer in zip(groups, asked, await self._run(asked), strict=True):
            answers |= zip(group, answers_of(call, answer), strict=True)
        return [answers[at] for at in range(len(calls))]

    async def _run(self, calls: Sequence[Call]) -> list[Any]:
        timed = calls[0].script.of_record
        with _translated():
            answers = await self._servers.ask([_question(call) for call in calls], timed=timed)
            missing = [at for at, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
            if missing:
                # Once for each topic, or call for several messages: its last key stands for the server that it is on.
                loads = {(calls[at].script.name, calls[at].keys[-1]) for at in missing}
                again = [*(_load(*load) for load in loads), *(_question(calls[at]) for at in missing)]
                for at, answer in zip(missing, (await self._servers.ask(again))[len(loads) :], strict=True):
                    answers[at] = answer
            return _without_errors(answers)

    async def agree(self) -> None:
        """Sees that all who use this Redis under the same prefix look for a message in the same bucket.

        Raises:
            StoreUnfit: they would not.
            StoreUnavailable
        """
        if self._keys is None:
            return
        key, own = self._keys.index_buckets, self._keys.buckets
        # A Redis that is full can be read.
        stored = await self.command("GET", key) or await self.command("SET", key, own, "NX", "GET")
        if stored is not None and (found := int(stored)) != own:
            raise StoreUnfit(
                f"Redis has the index in {found} buckets and BRIDGE_INDEX_BUCKETS is {own}: set it to {found}. To have "
                f"{own}, use up all messages, stop every bridge and delete the key {key}, or take another "
                "BRIDGE_REDIS_PREFIX"
            )
        self._agreed = True

    async def learn_clock(self, keys: Sequence[str] = ()) -> None:
        """Asks for the time, so that the clock is known, and with it whether Redis answers: the servers that these
        keys live on; with none all of them, of which one has to answer."""
        with _translated():
            await self._servers.hear(keys)

    async def command(self, *words: Any) -> Any:
        """Runs one plain command; the word after its name is a key. The answer as Redis gave it."""
        with _translated():
            return _without_errors(await self._servers.ask([_plain(words)]))[0]

    async def command_each(self, *words: Any) -> list[Any]:
        """Runs one plain command on every server."""
        with _translated():
            return _without_errors(await self._servers.ask_each(packed("", *words)))

    async def commands(self, commands: Sequence[Sequence[Any]]) -> None:
        """Runs plain commands in one round trip, those of a topic in order."""
        with _translated():
            _without_errors(await self._servers.ask([_plain(words) for words in commands]))

    def apart(self, keys: Sequence[str]) -> list[list[int]]:
        """The places of the keys, by the server that each lives on: what is asked together fails together, and one
        server that is away shall keep nobody from the others."""
        return self._servers.apart(keys)

    async def close(self) -> None:
        await self._servers.close()


def _question(call: Call) -> Question:
    return Question(call.keys[0], pack_command(("EVALSHA", call.script.sha, len(call.keys), *call.keys, *call.args)))


def _load(script_name: str, key: str) -> Question:
    return packed(key, "SCRIPT", "LOAD", SCRIPTS[script_name].text)


def _plain(words: Sequence[Any]) -> Question:
    return packed(str(words[1]), *words)


def _without_errors(answers: list[Any]) -> list[Any]:
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return answers


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except ResponseError as error:
        # redis-py takes the code of an error that it has a class for out of the text.
        code = error.status_code or str(error).partition(" ")[0]
        if code in _PASSING:
            raise StoreUnavailable(f"Redis takes no writes now: {error}") from error
        raise
    except (RedisError, OSError, TimeoutError) as error:
        raise StoreUnavailable(f"Redis did not answer: {tls_failure(error) or type(error).__name__}") from error
