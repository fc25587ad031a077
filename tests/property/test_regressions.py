"""Repeats, in a few steps each, failures that `test_transitions.py` once found, and ways that it seldom takes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from bridge.broker.publications import short_ms
from bridge.local.redis import RedisNode
from bridge.loops.checkpoint.batches import PAUSED_MS
from bridge.model.message import Copy, CopyKind, Envelope, State, own_life_id
from bridge.model.timeline import What
from bridge.model.values import Draft
from bridge.service.protocol.successors import as_recorded, first_copy, lease_copy, replay_copy, successor
from bridge.store.messages.records import AHEAD_MS, Claim
from bridge.store.messages.timelines import transitions
from bridge.store.messages.verdicts import DeleteVerdict, FireVerdict
from tests.property.test_transitions import DAY_MS, HOUR_MS, Transitions, connected_store
from tests.property.world import BORN_MS, PlacedCopy, World
from tests.records import draft


@pytest.fixture
def steps(redis_node: RedisNode) -> Iterator[Transitions]:
    with connected_store(redis_node) as (run, store):
        machine = Transitions(run, store)
        yield machine
        machine.all_invariants_hold()
        machine.teardown()


def send(steps: Transitions, delay_ms: int = 0, ttl_ms: int = -1) -> None:
    steps.send(name="a", delay_ms=delay_ms, ttl_ms=ttl_ms, max_retry=1, direct=False, published=True, twice=False)


def sent(steps: Transitions, delay_ms: int = 0) -> None:
    send(steps, delay_ms)
    steps.confirm(at=0, twice=False, kept=b"\n{}")


def fire(steps: Transitions, at: int = 0, *, believed: bool = False, paused: bool = False, twice: bool = False) -> None:
    steps.a_copy_comes_out_of_the_wheel(at=at, paused=paused, believed=believed, kept=b"", twice=twice, dies="")


def returned(steps: Transitions, at: int = 0, dies: str = "") -> None:
    steps.a_copy_comes_back_from_its_ready_queue(at=at, by_ttl=False, backoff_ms=0, twice=False, dies=dies)


def pull(steps: Transitions, at: int = 0, lease_ms: int = 1_000, dies: str = "") -> None:
    steps.pull(at=at, lease_ms=lease_ms, counted=True, twice=False, dies=dies)


def state(steps: Transitions) -> State | None:
    record = steps.record("a")
    return None if record is None else record.state


def test_a_move_to_later_is_kept_as_it_was_answered(steps: Transitions) -> None:
    sent(steps, 1_000)
    steps.move(at=0, delay_ms=2 * DAY_MS, twice=True, dies="")

    record = steps.record("a")
    assert record is not None
    assert record.last_ms == record.due_ms == steps.world.now_ms + 2 * DAY_MS


def test_a_forgotten_id_that_is_sent_again_is_in_one_index(steps: Transitions) -> None:
    sent(steps)
    steps.ack(name="a", at=0, fenced=False, twice=False)
    steps.time_passes(by_ms=8 * DAY_MS)
    assert state(steps) is None

    sent(steps, 1_000)
    assert steps.world.kept("a").scores.keys() == {"waiting"}


def test_an_id_that_is_sent_again_stays_in_its_index_when_another_message_ends(steps: Transitions) -> None:
    sent(steps)
    steps.ack(name="a", at=0, fenced=False, twice=False)
    steps.time_passes(by_ms=8 * DAY_MS)
    sent(steps, 1_000)
    steps.send(name="b", delay_ms=0, ttl_ms=-1, max_retry=1, direct=False, published=True, twice=False)
    steps.delete(name="b", release=False, twice=False)

    assert steps.world.kept("a").scores.keys() == {"waiting"}


@pytest.mark.parametrize("dies", ["before publishing", "before naming"])
def test_a_rejected_message_of_an_amqp_client_survives_a_crash_of_the_checkpoint(steps: Transitions, dies: str) -> None:
    steps.a_client_delays_by_key_alone(name="a", delay_ms=0, max_retry=1, direct=True)
    steps.a_direct_copy_reaches_its_ready_queue(at=0)
    returned(steps, dies=dies)
    returned(steps)

    assert state(steps) is State.WAITING
    assert steps.broker("a").ready == []


def test_the_lease_copy_of_an_expired_message_finds_its_record(steps: Transitions) -> None:
    send(steps, ttl_ms=0)
    pull(steps, lease_ms=12 * HOUR_MS)
    steps.all_invariants_hold()
    assert state(steps) is State.EXPIRED

    steps.time_passes_until_something_happens(at=0, short=False)
    fire(steps)
    assert state(steps) is State.EXPIRED


def test_the_lease_copy_of_a_ready_copy_that_came_twice_finds_its_record(steps: Transitions) -> None:
    sent(steps)
    pull(steps, dies="before acknowledging")
    steps.ack(name="a", at=0, fenced=False, twice=False)
    pull(steps, lease_ms=12 * HOUR_MS)
    steps.all_invariants_hold()

    for _ in range(11):
        steps.time_passes(by_ms=HOUR_MS)
    fire(steps, at=1)
    assert state(steps) is State.ACKED


def test_the_successor_of_a_late_nack_finds_its_record(steps: Transitions) -> None:
    sent(steps)
    pull(steps)
    steps.ack(name="a", at=0, fenced=False, twice=False)
    steps.nack(at=0, delay_ms=2 * DAY_MS, body_kept=True, twice=False, dies="")


def test_a_ready_record_outlives_the_copy_from_before_its_move(steps: Transitions) -> None:
    sent(steps, 40 * DAY_MS)
    steps.move(at=0, delay_ms=0, twice=False, dies="")
    fire(steps, at=1)

    assert state(steps) is State.READY


def test_a_confirmation_is_not_taken_for_another_send_of_the_same_millisecond(steps: Transitions) -> None:
    send(steps)
    steps.delete(name="a", release=False, twice=False)
    send(steps)  # is answered with the deleted message
    send(steps)
    first, second = steps.claims
    steps.confirm(at=0, twice=False, kept=b"")
    assert (state(steps), steps.claims) == (State.UNCONFIRMED, [second])

    steps.confirm(at=0, twice=False, kept=b"")
    assert state(steps) is State.READY
    assert first.record.created_ms == second.record.created_ms


def test_a_successor_that_is_believed_is_not_released_before_it_is_due(steps: Transitions) -> None:
    sent(steps)
    pull(steps, lease_ms=12 * HOUR_MS)
    steps.nack(at=0, delay_ms=2 * DAY_MS, body_kept=True, twice=False, dies="before naming")
    fire(steps, at=1)
    fire(steps, at=1, believed=True)

    record = steps.record("a")
    assert record is not None
    assert (record.state, record.due_ms) == (State.WAITING, steps.world.now_ms + 2 * DAY_MS)
    assert steps.broker("a").ready == []


def test_a_replay_that_no_record_names_is_asked_about_and_then_believed(steps: Transitions) -> None:
    sent(steps)
    for _ in range(2):  # the second nack uses up the retries
        pull(steps)
        steps.nack(at=0, delay_ms=0, body_kept=True, twice=False, dies="")
        fire(steps, at=-1)
    assert state(steps) is State.DEAD

    steps.replay(at=0, max_retry=2, ttl_ms=-1, twice=False, dies="before naming")
    fire(steps, at=-1)
    assert state(steps) is State.DEAD

    fire(steps, at=-1, believed=True)
    record = steps.record("a")
    assert record is not None
    assert (record.state, record.attempts, record.max_retry, record.ended_ms) == (State.READY, 0, 2, 0)


def test_a_move_to_the_same_moment_keeps_the_time_to_live(
    steps: Transitions,
) -> None:
    send(steps, 1_000, 45_000)
    steps.confirm(at=0, twice=False, kept=b"")
    before = steps.record("a")
    steps.go_on(steps.world.now_ms + 1_000)
    fire(steps, paused=True)
    steps.move(at=2, delay_ms=1_000, twice=False, dies="")

    after = steps.record("a")
    assert before is not None
    assert after is not None
    assert (after.due_ms, after.expires_ms) == (before.due_ms, before.expires_ms)


def test_a_dead_letter_whose_id_was_taken_can_be_replayed_beside_the_new_message(steps: Transitions) -> None:
    steps.make_a_dead_letter()
    sent(steps, 1_000)
    ((aside, letter),) = steps.copies("dead")
    assert aside == f"a~dead{letter.copy.nonce}"
    assert len(steps.shown(aside)) == 601

    steps.replay(at=0, max_retry=1, ttl_ms=-1, twice=True, dies="")
    replayed = steps.record(aside)
    assert replayed is not None
    assert replayed.state is state(steps) is State.WAITING


def test_a_clients_copy_that_comes_again_may_be_another_message_beside_its_first(steps: Transitions) -> None:
    steps.a_client_delays_by_key_alone(name="a", delay_ms=0, max_retry=0, direct=False)
    fire(steps, paused=True)
    steps.a_client_delays_by_key_alone(name="a", delay_ms=1, max_retry=0, direct=False)
    fire(steps, at=1, twice=True)
    assert state(steps) is State.READY


def pull_without_a_lease_copy(steps: Transitions) -> None:
    sent(steps)
    steps.pull_without_a_lease_copy(at=0, lease_ms=30_000, counted=True, twice=False)
    assert state(steps) is State.LEASED


def ends_its_lease_once(steps: Transitions) -> None:
    """The record names a lease copy in the wheel, which makes the message ready when its lease ends."""
    record = steps.record("a")
    assert record is not None
    assert (record.state, record.attempts, steps.kept["a"].delivered) == (State.LEASED, 1, None)
    assert [one.is_named_by(record) for one in steps.broker("a").wheel] == [True]
    assert steps.broker("a").ready == []
    steps.time_passes_until_something_happens(at=0, short=False)
    while steps.world.now_ms < record.lease_until_ms:
        steps.time_passes_until_something_happens(at=0, short=False)
    fire(steps)
    assert state(steps) is State.READY


def another_pull_ends_its_lease_once(steps: Transitions) -> None:
    """The process that leased dies, and another pull takes its delivery."""
    steps.a_process_with_deliveries_dies(at=0)
    steps.pull_without_a_lease_copy(at=0, lease_ms=1_000, counted=True, twice=False)
    ends_its_lease_once(steps)


def test_a_pull_that_meets_the_delivery_of_a_dead_process_publishes_its_lease_copy(steps: Transitions) -> None:
    pull_without_a_lease_copy(steps)
    another_pull_ends_its_lease_once(steps)


def test_move_of_a_nacked_message_keeps_the_delivery_of_a_dead_process(steps: Transitions) -> None:
    pull_without_a_lease_copy(steps)
    steps.nack(at=0, delay_ms=0, body_kept=False, twice=False, dies="")
    steps.move(at=0, delay_ms=60_000, twice=False, dies="")
    steps.all_invariants_hold()
    steps.a_process_with_deliveries_dies(at=0)
    returned(steps)
    steps.time_passes(by_ms=HOUR_MS)
    fire(steps)
    assert state(steps) is State.READY


def pull_clients_own_without_a_lease_copy(steps: Transitions) -> None:
    steps.a_client_delays_by_key_alone(name="a", delay_ms=0, max_retry=1, direct=False)
    fire(steps)
    steps.pull_without_a_lease_copy(at=0, lease_ms=30_000, counted=True, twice=False)


def test_a_clients_own_message_of_a_dead_process_ends_its_lease_once(steps: Transitions) -> None:
    pull_clients_own_without_a_lease_copy(steps)
    assert steps.kept["a"].delivered == 0
    steps.all_invariants_hold()
    another_pull_ends_its_lease_once(steps)


def test_a_clients_message_under_the_id_of_a_lease_is_no_delivery_of_that_lease(steps: Transitions) -> None:
    pull_clients_own_without_a_lease_copy(steps)

    for second in (pull, returned):
        steps.a_client_delays_by_key_alone(name="a", delay_ms=0, max_retry=1, direct=True)
        steps.a_direct_copy_reaches_its_ready_queue(at=0)
        second(steps, at=1)
        assert (state(steps), steps.kept["a"].delivered) == (State.LEASED, 0)


def test_a_returned_delivery_of_a_dead_process_becomes_its_lease_copy(steps: Transitions) -> None:
    pull_without_a_lease_copy(steps)
    steps.a_process_with_deliveries_dies(at=0)
    returned(steps)

    ends_its_lease_once(steps)


def test_a_late_lease_copy_ends_the_lease_once(steps: Transitions) -> None:
    pull_without_a_lease_copy(steps)
    steps.a_lease_copy_is_published_late(at=0, twice=True, asked=True, dies="")

    ends_its_lease_once(steps)


def test_a_delivery_whose_lease_copy_was_released_is_a_ghost(steps: Transitions) -> None:
    pull_without_a_lease_copy(steps)
    record = steps.record("a")
    assert record is not None
    steps.a_lease_copy_is_published_late(at=0, twice=False, asked=True, dies="before naming")
    steps.go_on(record.lease_until_ms)
    fire(steps)
    assert (state(steps), steps.kept["a"].delivered) == (State.READY, None)

    delivered, released = steps.broker("a").ready
    assert released.is_named_by(record)
    steps.pull_without_a_lease_copy(at=0, lease_ms=1_000, counted=True, twice=False)
    assert steps.broker("a").ready == [released]
    assert not delivered.is_named_by(record)


def whats(steps: Transitions) -> list[What]:
    (outcome,) = steps.world.ask(steps.world.records.timeline(steps.world.topic, "a"))
    return [transition.what for transition in transitions(outcome)]


def test_a_transition_without_timelines_ends_that_of_its_message(steps: Transitions) -> None:
    world = steps.world
    off = replace(world.records, timelines=False)
    sent(steps, 1_000)
    assert whats(steps) == [What.SENT]
    steps.move(at=0, delay_ms=2 * DAY_MS, twice=False, dies="")
    assert whats(steps) == [What.SENT, What.MOVED]

    world.ask(off.delete(world.topic, "a", release=False))
    assert (whats(steps), world.kept("a").timeline) == ([], b"")
    steps.forgotten("a")


def test_a_record_of_a_bridge_without_timelines_begins_one_with_its_next_transition(steps: Transitions) -> None:
    world = steps.world
    sent(steps, 60_000)
    steps.time_passes(by_ms=60_000)
    fire(steps)
    assert whats(steps) == [What.SENT, What.RELEASED]
    (record,) = (key for key in world.records.keys.record(world.topic, "a")[:1])
    world.command(
        "EVAL", "redis.call('SET', KEYS[1], cmsgpack.pack((cmsgpack.unpack(redis.call('GET', KEYS[1])))))", 1, record
    )
    assert whats(steps) == []

    steps.timelines["a"] = []
    pull(steps)
    assert whats(steps) == [What.LEASED]


def test_later_message_that_a_failover_has_forgotten_is_no_ghost_of_the_ended_one(steps: Transitions) -> None:
    for place in ("wheel", "ready"):
        sent(steps)
        steps.ack(name="a", at=0, fenced=False, twice=False)
        steps.time_passes(by_ms=1)
        before = kept_by_redis(steps)
        sent(steps, 1_000 if place == "wheel" else 0)
        fail_over_to(steps, before)
        assert state(steps) is State.ACKED
        known = steps.record("a")
        assert known is not None
        (placed,) = [one for one in steps.broker("a") if one.copy.epoch > known.epoch]
        copies = steps.copies(place)
        at = next(at for at, (_, one) in enumerate(copies) if one is placed)
        if place == "wheel":
            steps.time_passes(by_ms=1_000)
            fire(steps, at)
            assert state(steps) is State.READY
        else:
            pull(steps, at)
            assert state(steps) is State.LEASED
        steps.ack(name="a", at=0, fenced=False, twice=False)


def comes_under_an_id_of_its_own(steps: Transitions, own: PlacedCopy) -> None:
    """`own`: the copy of the message that Redis has forgotten."""
    steps.world.go_on(own.copy.due_ms, {})
    place = next(place for place in ("wheel", "ready") if own in getattr(steps.broker("a"), place))
    before, at = steps.record("a"), [one for _, one in steps.copies(place)].index(own)
    if place == "wheel":
        fire(steps, at)
    else:
        pull(steps, at)
    assert steps.record("a") == before
    renamed = own_life_id("a", own.copy.created_ms)
    fire(steps, [name for name, _ in steps.copies("wheel")].index(renamed))
    record = steps.record(renamed)
    assert record is not None
    assert record.state is State.READY


@pytest.mark.parametrize("then", ["nothing", "lease", "ack", "delete", "ack and send"])
@pytest.mark.parametrize("forgotten", ["a wait", "a release", "a lease", "a nack"])
def test_message_that_a_failover_has_forgotten_comes_beside_the_next_one_of_its_id(
    steps: Transitions, forgotten: str, then: str
) -> None:
    sent(steps)
    pull(steps)
    steps.ack(name="a", at=0, fenced=False, twice=False)
    steps.time_passes(by_ms=1)
    before, known = kept_by_redis(steps), list(steps.broker("a"))
    sent(steps, 1_000 if forgotten == "a wait" else 0)
    if forgotten in ("a lease", "a nack"):
        pull(steps, [one for _, one in steps.copies("ready")].index(steps.broker("a").ready[-1]))
    if forgotten == "a nack":
        steps.nack(at=0, delay_ms=1_000, body_kept=True, twice=False, dies="")
    own = max((one for one in steps.broker("a") if one not in known), key=lambda one: one.copy.epoch)
    fail_over_to(steps, before)
    steps.time_passes(by_ms=1)
    sent(steps)
    if then == "lease":
        pull(steps, [one for _, one in steps.copies("ready")].index(steps.broker("a").ready[-1]))
    elif then == "delete":
        steps.delete(name="a", release=False, twice=False, even_releasing=True)
    elif then != "nothing":
        steps.ack(name="a", at=0, fenced=False, twice=False)
    if then == "ack and send":
        steps.time_passes(by_ms=1)
        sent(steps)

    comes_under_an_id_of_its_own(steps, own)


def test_leased_message_that_a_failover_has_forgotten_comes_once_the_former_one_has_ended_again(
    steps: Transitions,
) -> None:
    sent(steps)
    pull(steps, lease_ms=12 * HOUR_MS)
    before = kept_by_redis(steps)
    steps.ack(name="a", at=0, fenced=False, twice=False)
    steps.time_passes(by_ms=1)
    sent(steps)
    pull(steps)
    forgotten = steps.record("a")
    assert forgotten is not None
    fail_over_to(steps, before)
    steps.time_passes(by_ms=1_000)
    fire(steps, [one.names for _, one in steps.copies("wheel")].index((forgotten.epoch, forgotten.nonce)))
    steps.ack(name="a", at=0, fenced=False, twice=False)
    fire(steps, [one.copy.asked for _, one in steps.copies("wheel")].index(1))

    record = steps.record("a")
    assert record is not None
    assert (record.state, record.created_ms) == (State.READY, forgotten.created_ms)


@pytest.mark.parametrize("then", ["nothing", "replace", "ten more"])
def test_copy_of_a_deleted_message_is_a_ghost_though_the_clock_was_set_back(steps: Transitions, then: str) -> None:
    sent(steps, HOUR_MS)
    (first,) = steps.broker("a").wheel
    steps.delete(name="a", release=False, twice=False)
    steps.world.now_ms -= 2 * HOUR_MS
    sent(steps, DAY_MS)
    if then == "replace":
        steps.put_another_in_its_place(at=0, delay_ms=DAY_MS, ttl_ms=-1, max_retry=1, kept=b"", twice=False, dies="")
    for _ in range(10 if then == "ten more" else 0):
        steps.delete(name="a", release=False, twice=False)
        steps.time_passes(by_ms=1)
        sent(steps, DAY_MS)
    record = steps.record("a")
    fire(steps, [one for _, one in steps.copies("wheel")].index(first))

    assert steps.record("a") == record
    assert {name for name, _ in steps.copies("wheel")} == {"a"}
    assert first not in steps.broker("a").wheel


def test_record_knows_the_eight_messages_of_its_id_before_its_own(steps: Transitions) -> None:
    for _ in range(12):
        sent(steps)
        steps.ack(name="a", at=0, fenced=False, twice=False)
        steps.time_passes(by_ms=1)
    record = steps.record("a")
    assert record is not None
    assert steps.kept["a"].known_ms == tuple(record.created_ms - back_ms for back_ms in range(8, -1, -1))


@pytest.mark.parametrize("end", ["lease", "ack", "delete"])
def test_replacement_that_a_failover_has_forgotten_comes_beside_the_message_that_it_replaced(
    steps: Transitions, end: str
) -> None:
    sent(steps)
    before, known = kept_by_redis(steps), list(steps.broker("a"))
    steps.time_passes(by_ms=1)
    steps.put_another_in_its_place(at=0, delay_ms=1_000, ttl_ms=-1, max_retry=1, kept=b"", twice=False, dies="")
    (own,) = [one for one in steps.broker("a") if one not in known]
    fail_over_to(steps, before)
    pull(steps)
    if end == "ack":
        steps.ack(name="a", at=0, fenced=False, twice=False)
    elif end == "delete":
        steps.delete(name="a", release=False, twice=False, even_releasing=True)
    record = steps.record("a")
    steps.time_passes(by_ms=1_000)
    fire(steps, [one for _, one in steps.copies("wheel")].index(own))
    if end == "delete":
        assert {name for name, _ in steps.copies("wheel")} == {"a"}
        return
    (again,) = [one for one in steps.broker("a").wheel if one.copy.asked]
    fire(steps, [one for _, one in steps.copies("wheel")].index(again), believed=True)

    assert steps.record("a") == record
    assert own_life_id("a", own.copy.created_ms) in {name for name, _ in steps.copies("wheel")}


def test_direct_message_is_entered_after_redis_was_emptied(steps: Transitions) -> None:
    steps.publish_under_a_made_id(delay_ms=1_000, fast_ms=0, max_retry=0, direct=True)
    steps.redis_is_emptied()
    steps.enter(at=0, twice=False, kept=b"", dies=False)


def test_lease_before_the_moment_makes_no_record_after_redis_was_emptied(steps: Transitions) -> None:
    sent(steps, 1_000)
    steps.time_passes(by_ms=1_000 - AHEAD_MS)
    fire(steps)
    steps.redis_is_emptied()
    pull(steps)
    assert state(steps) is None


@pytest.mark.parametrize("refused", ["move", "replacement"])
def test_copy_of_a_refused_call_is_a_ghost_at_once(steps: Transitions, refused: str) -> None:
    sent(steps, 60_000)
    steps.time_passes(by_ms=60_000 - AHEAD_MS)
    fire(steps)
    if refused == "move":
        steps.move(at=2, delay_ms=0, twice=True, dies="")
    else:
        steps.put_another_in_its_place(
            at=0, delay_ms=0, ttl_ms=-1, max_retry=0, kept=b"refused", twice=True, dies="before acknowledging"
        )
    record = steps.record("a")
    assert record is not None
    fire(steps)

    assert steps.record("a") == record
    assert steps.broker("a").wheel == []


def test_withdrawn_claim_leaves_a_record_that_outlives_the_copy_of_a_refused_call(steps: Transitions) -> None:
    sent(steps)
    record = steps.record("a")
    assert record is not None
    steps.redis_is_emptied()
    steps.send(name="a", delay_ms=1, ttl_ms=-1, max_retry=1, direct=False, published=False, twice=False)
    steps.seen.append(record)
    steps.put_another_in_its_place(
        at=0, delay_ms=40 * DAY_MS, ttl_ms=-1, max_retry=1, kept=b"refused", twice=False, dies=""
    )
    steps.withdraw(at=0, twice=False)
    send(steps)
    steps.all_invariants_hold()
    steps.time_passes(by_ms=40 * DAY_MS)
    fire(steps, [one.kind for _, one in steps.copies("wheel")].index(CopyKind.MOVE))
    assert steps.broker("a").wheel == []


def test_record_notes_the_last_64_refused_copies(steps: Transitions) -> None:
    world = steps.world
    sent(steps, 60_000)
    record = steps.record("a")
    assert record is not None
    steps.time_passes(by_ms=60_000 - AHEAD_MS)
    fire(steps)

    def refuse(count: int) -> list[Copy]:
        copies = [successor(record, Envelope(), nonce=world.nonce(), attempt=1, due_ms=0) for _ in range(count)]
        for copy in copies:
            assert world.ask(world.records.replace(record, copy, draft(), envelope=b""))[0].verdict == "releasing"
        return copies

    def verdict(copy: Copy) -> str:
        return world.ask(world.records.fire(copy, paused_ms=0, adopt=False))[0].verdict

    (key, *_), first = world.records.keys.record(world.topic, "a"), refuse(6)
    few_bytes = world.command("STRLEN", key)
    latest = refuse(64)
    assert world.command("STRLEN", key) <= few_bytes + 6 * 64
    assert {verdict(copy) for copy in latest} == {"ghost"}
    assert {verdict(copy) for copy in first} == {"ahead"}


def kept_by_redis(steps: Transitions) -> dict[str, tuple[bytes, int]]:
    """All that Redis keeps of the message a: each key's bytes and expiry."""
    keys = steps.world.records.keys.record(steps.world.topic, "a")
    command = steps.world.command
    return {key: (dumped, command("PTTL", key)) for key in keys if (dumped := command("DUMP", key)) is not None}


def fail_over_to(steps: Transitions, before: dict[str, tuple[bytes, int]]) -> None:
    """Goes back to what Redis kept then, as a replica does that had not got the last writes."""
    steps.world.clear()
    steps.lost.add("a")
    for key, (dumped, ttl_ms) in before.items():
        steps.world.command("RESTORE", key, max(0, ttl_ms), dumped)
    steps.forgotten("a")


def test_clients_message_that_was_read_while_the_clock_was_ahead_is_due(redis_node: RedisNode) -> None:
    """Redis answers the checkpoint only once the clock is right again."""
    with connected_store(redis_node) as (run, store):
        world = World(run, store)
        read_ms = world.now_ms + HOUR_MS
        fields = {"epoch": 0, "attempt": 1, "max_retry": 3, "due_ms": read_ms, "created_ms": read_ms}
        copy = Copy(topic=world.topic, id="a", nonce=0, expires_ms=0, envelope=Envelope(), **fields)
        fire = world.records.fire(copy, paused_ms=0, adopt=False, waited_ms=3_000, short_ms=short_ms())
        (outcome,) = world.ask(fire)
        assert (outcome.verdict, outcome.found.due_ms) == (FireVerdict.MADE, world.now_ms)
        world.clear()


def test_replay_that_was_asked_for_while_the_clock_was_ahead_is_due(redis_node: RedisNode) -> None:
    """Redis names the replay a few milliseconds after the process has read the clock. Its copy comes once the clock is
    right again."""
    with connected_store(redis_node) as (run, store):
        world = World(run, store)
        right_ms = world.now_ms
        world.now_ms = read_ms = right_ms + HOUR_MS
        fields = {"epoch": 2, "attempt": 4, "max_retry": 3, "due_ms": right_ms, "created_ms": right_ms}
        letter = Copy(topic=world.topic, id="a", nonce=1, expires_ms=0, envelope=Envelope(), **fields)
        copy = replay_copy(letter, read_ms)
        world.now_ms += 7
        world.ask(world.records.replay(letter, next_nonce=copy.nonce, max_retry=3, due_ms=copy.due_ms, expires_ms=0))
        world.now_ms = right_ms + 5_000
        (outcome,) = world.ask(world.records.fire(copy, paused_ms=0, adopt=False, waited_ms=0, short_ms=short_ms()))
        assert (outcome.verdict, outcome.extra) == (FireVerdict.HOLD, short_ms())
        world.clear()


def test_message_created_in_the_millisecond_in_which_a_lost_record_returned_is_no_ghost(redis_node: RedisNode) -> None:
    """A failover has forgotten the message. In that millisecond a copy of the message before made a record again."""
    with connected_store(redis_node) as (run, store):
        world = World(run, store)
        fields = {"attempt": 1, "max_retry": 3, "due_ms": world.now_ms, "expires_ms": 0}
        own = {"nonce": 1, "created_ms": world.now_ms - 10_000}
        before = Copy(topic=world.topic, id="a", epoch=3, envelope=Envelope(), **fields, **own)
        world.ask(world.records.fire(before, paused_ms=0, adopt=False))
        forgotten = replace(before, epoch=1, nonce=2, created_ms=world.now_ms)
        (outcome,) = world.ask(world.records.fire(forgotten, paused_ms=0, adopt=False))
        assert outcome.verdict is FireVerdict.ANOTHER
        world.clear()


@pytest.mark.parametrize("replaced", [False, True], ids=["sent again", "and replaced"])
def test_deleted_message_is_no_message_of_a_lost_record_that_returned_while_the_clock_was_ahead(
    redis_node: RedisNode, replaced: bool
) -> None:
    with connected_store(redis_node) as (run, store):
        world = World(run, store)
        right_ms = world.now_ms
        fields = {"epoch": 1, "attempt": 1, "max_retry": 3, "due_ms": right_ms, "created_ms": right_ms - 1_000}
        lost = Copy(topic=world.topic, id="a", nonce=1, expires_ms=0, envelope=Envelope(), **fields)
        world.now_ms = right_ms + HOUR_MS
        world.ask(world.records.fire(lost, paused_ms=0, adopt=False))
        world.now_ms = right_ms
        world.ask(world.records.ack(world.topic, "a", epoch=None))
        sent: list[Copy] = []
        for nonce in (2, 3):
            world.now_ms += 1_000
            wanted = Draft(topic=world.topic, id="a", envelope=Envelope(), delay_ms=5_000)
            (claimed,) = world.ask(world.records.schedule(wanted, Claim("a", -1, 3, nonce, "-")))
            world.ask(world.records.confirm(claimed.found))
            sent.append(first_copy(claimed.found, Envelope()))
            if nonce == 2:
                (deleted,) = world.ask(world.records.delete(world.topic, "a", release=False))
                assert deleted.verdict is DeleteVerdict.DELETED
        if replaced:
            world.now_ms += 1_000
            after = replace(sent[1], epoch=sent[1].epoch + 1, nonce=4, created_ms=world.now_ms)
            world.ask(
                world.records.replace(
                    claimed.found, after, draft(topic=world.topic, id="a", delay_ms=5_000), envelope=b""
                )
            )
        world.now_ms = sent[0].due_ms
        (outcome,) = world.ask(world.records.fire(sent[0], paused_ms=0, adopt=False))
        assert outcome.verdict is FireVerdict.GHOST
        world.clear()


@pytest.mark.parametrize("epoch", [0, 1], ids=["of a client", "of a bridge"])
def test_message_that_fell_due_in_a_pause_while_the_clock_was_ahead_is_due(redis_node: RedisNode, epoch: int) -> None:
    with connected_store(redis_node) as (run, store):
        world = World(run, store)
        right_ms, ahead_ms = world.now_ms, world.now_ms + HOUR_MS
        fields = {"epoch": epoch, "attempt": 1, "max_retry": 3, "due_ms": ahead_ms, "created_ms": ahead_ms}
        copy = Copy(topic=world.topic, id="a", nonce=epoch, expires_ms=0, envelope=Envelope(), **fields)
        world.now_ms = ahead_ms
        (outcome,) = world.ask(
            world.records.fire(copy, paused_ms=PAUSED_MS, adopt=False, waited_ms=0, short_ms=short_ms())
        )
        assert (outcome.verdict, outcome.extra) == (FireVerdict.HOLD, PAUSED_MS)
        world.now_ms = right_ms + PAUSED_MS
        copy = as_recorded(copy, outcome.found)
        (outcome,) = world.ask(world.records.fire(copy, paused_ms=0, adopt=False, short_ms=short_ms()))
        assert (outcome.verdict, outcome.found.due_ms) == (FireVerdict.RELEASE, world.now_ms)
        world.clear()


def test_move_from_before_a_step_of_the_clock_holds_after_a_pause_during_the_step(redis_node: RedisNode) -> None:
    """The copy still has its former moment, as the move changed only the record."""
    with connected_store(redis_node) as (run, store):
        world = World(run, store)
        right_ms = world.now_ms
        (claimed,) = world.ask(
            world.records.schedule(draft(topic=world.topic, id="a", delay_ms=10_000), Claim("a", -1, 3, 1, "-"))
        )
        (confirmed,) = world.ask(world.records.confirm(claimed.found))
        copy = first_copy(confirmed.found, Envelope())
        world.ask(world.records.change(confirmed.found, due_ms=right_ms + HOUR_MS))
        world.now_ms = right_ms + 2 * HOUR_MS
        fire = world.records.fire(copy, paused_ms=PAUSED_MS, adopt=False, waited_ms=10_000, short_ms=short_ms())
        (held,) = world.ask(fire)
        assert held.verdict is FireVerdict.HOLD
        world.now_ms = right_ms + 15_000
        again = as_recorded(copy, held.found)
        (outcome,) = world.ask(world.records.fire(again, paused_ms=0, adopt=False, short_ms=short_ms()))
        assert (outcome.verdict, outcome.extra) == (FireVerdict.HOLD, HOUR_MS - 15_000)
        world.clear()


def test_lease_that_is_named_long_after_its_copy_was_published_lasts_as_it_was_answered(redis_node: RedisNode) -> None:
    """The copy has waited for the whole lease, which counts from the call that named the copy."""
    with connected_store(redis_node) as (run, store):
        world = World(run, store)
        fields = {"epoch": 1, "attempt": 1, "max_retry": 3, "due_ms": BORN_MS, "created_ms": BORN_MS}
        first = Copy(topic=world.topic, id="a", nonce=1, expires_ms=0, envelope=Envelope(), **fields)
        copy = lease_copy(first, world.now_ms + 30_000, counted=True)
        world.now_ms += 3_000
        world.ask(world.records.lease(first, next_nonce=copy.nonce, lease_ms=30_000, arrives_in_ms=30_000))
        world.now_ms = BORN_MS + 30_000
        fire = world.records.fire(copy, paused_ms=0, adopt=False, waited_ms=30_000, short_ms=short_ms())
        (outcome,) = world.ask(fire)
        assert (outcome.verdict, outcome.extra) == (FireVerdict.HOLD, 3_000)
        world.clear()
