"""Tests a restore whose copy comes out of the wheel before its record is restored."""

from __future__ import annotations

from dataclasses import replace

from bridge.local.redis import RedisNode
from bridge.model.message import Envelope, Record, State
from bridge.service.protocol.successors import successor
from bridge.store.messages.outcomes import Looked, read_envelope
from bridge.store.messages.verdicts import FireVerdict, RestoreVerdict
from tests.property.test_transitions import connected_store
from tests.property.world import BORN_MS, World
from tests.records import record

ENVELOPE = Envelope(headers={"from": "backup"}, body=b"{}")


def backed_up(world: World) -> Record:
    """A message of the backup, which is due now."""
    moments = {"created_ms": BORN_MS - 9_000, "due_ms": BORN_MS, "arrives_ms": BORN_MS, "last_ms": BORN_MS}
    return record(topic=world.topic, id="a", epoch=3, max_retry=5, labels="kind=bill", **moments)


def test_message_whose_copy_came_before_it_was_restored_gets_its_labels_and_envelope(redis_node: RedisNode) -> None:
    with connected_store(redis_node) as (run, store):
        world = World(run, store)
        record, records = backed_up(world), world.records
        copy = successor(record, ENVELOPE, nonce=99, attempt=1, due_ms=record.due_ms)
        restored = replace(record, epoch=copy.epoch, nonce=copy.nonce)
        (came,) = world.ask(records.fire(copy, paused_ms=0, adopt=False))
        assert came.verdict is FireVerdict.MADE

        first, again = world.ask(records.restore(record, restored, ENVELOPE), twice=True)
        (looked,) = world.ask(records.look(world.topic, "a"))
        assert (first.verdict, again.verdict) == (RestoreVerdict.RESTORED, RestoreVerdict.RESTORED)
        assert shown(looked) == (State.READY, 4, 99, "kind=bill", ENVELOPE)
        assert world.labels("a")

        other = replace(restored, nonce=100)  # of a second restore
        (kept,) = world.ask(records.restore(record, other, ENVELOPE))
        assert (kept.verdict, kept.found.nonce) == (RestoreVerdict.KEPT, 99)
        world.broker("a")
        world.clear()


def shown(looked: Looked) -> tuple[State, int, int, str, Envelope | None]:
    record = looked.found
    return record.state, record.epoch, record.nonce, record.labels, read_envelope(looked)
