"""Tests that the simulation names wrong moves of records, without a Redis."""

from __future__ import annotations

import pytest

from bridge.model.message import State
from bridge.store.scripts import SCRIPTS
from tests.life_table import Named
from tests.simulate.lives import Lives

KEYS = [b"delay/{orders}/m/o-1", *(b"key" for _ in range(len(SCRIPTS["ack"].keys) - 1))]
READY = Named(State.READY, created_ms=1, epoch=1, nonce=7, due_ms=5, lease_until_ms=0)
ACKED = READY._replace(state=State.ACKED)


class _Redis:
    """Holds the records by key."""

    def __init__(self) -> None:
        self.records: dict[bytes, Named] = {}
        self.lives = Lives(lambda *_: None)

    def look(self, words: list[bytes]) -> bytes:
        _, _, _, *keys = self.lives.look(words)
        return b"\n".join(b" ".join(b"%d" % field for field in self.records.get(key, ())) for key in keys)

    def call(self, script: str, after: Named, *, further: bytes = b"") -> None:
        """Runs a script that leaves its records so."""
        keys = [*KEYS, further, b"key"] if further else KEYS
        words = [b"EVALSHA", SCRIPTS[script].sha.encode(), b"%d" % len(keys), *keys]
        before = self.look(words)
        self.records[further or KEYS[0]] = after
        self.lives.called(words, before, self.look(words))


@pytest.fixture
def redis() -> _Redis:
    return _Redis()


def test_call_that_revives_an_ended_record_is_named(redis: _Redis) -> None:
    redis.records[KEYS[0]] = ACKED
    redis.call("fire", READY)

    assert redis.lives.findings == [
        "life of delay/{orders}/m/o-1: fire moved the record from acked to ready, which its header does not name"
    ]


def test_each_message_of_a_call_is_judged(redis: _Redis) -> None:
    redis.records = {KEYS[0]: READY, b"delay/{orders}/m/o-2": READY}
    redis.call("ack", ACKED, further=b"delay/{orders}/m/o-2")
    redis.call("fire", READY, further=b"delay/{orders}/m/o-2")

    assert redis.lives.moves == 1
    assert [one.partition(":")[0] for one in redis.lives.findings] == ["life of delay/{orders}/m/o-2"]


def test_record_that_changes_between_two_calls_is_named_unless_redis_may_forget_it(redis: _Redis) -> None:
    redis.records[KEYS[0]] = READY
    redis.call("ack", ACKED)
    del redis.records[KEYS[0]]
    redis.call("lease", READY._replace(state=State.LEASED))
    assert redis.lives.findings == []

    del redis.records[KEYS[0]]
    redis.call("lease", READY._replace(state=State.LEASED))
    assert len(redis.lives.findings) == 1


def test_emptied_redis_may_have_lost_any_record(redis: _Redis) -> None:
    redis.call("lease", READY._replace(state=State.LEASED))
    redis.records.clear()
    redis.lives.emptied()
    redis.call("lease", READY._replace(state=State.LEASED))

    assert redis.lives.findings == []
