"""Runs every script in any order, once or twice, for senders, checkpoints and consumers that may die between two steps.

The real scripts run on a real Redis. `model.py` predicts each verdict and holds the invariants.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from bridge.broker.copies import bundles
from bridge.broker.copies.bundles import Packed
from bridge.broker.copies.classify import Due
from bridge.broker.copies.entries import decode, encode
from bridge.broker.copies.windows import NEAR_MS
from bridge.broker.publications import Publication, Route, parked_ms
from bridge.local.redis import RedisNode
from bridge.loops.checkpoint.verdicts import Decision, Drop, Hold, Perform, after_fire, after_return, named
from bridge.model.errors import StoreUnavailable
from bridge.model.message import Copy, CopyKind, Envelope, Message, Record, State, aside_id
from bridge.model.timeline import MOST, What
from bridge.model.values import Backoff, Change, Policy
from bridge.service.changing import change_step
from bridge.service.nack_steps import nack_step
from bridge.service.protocol.steps import Step, Succeed, Update
from bridge.service.protocol.successors import first_copy, in_its_own_life, later, lease_copy, replay_copy, successor
from bridge.service.pulling.lease_copies import LATE_MS, late_step, missing_step
from bridge.service.pulling.leasing import AHEAD_PARKED_MS
from bridge.store.calls import Call
from bridge.store.client import Store
from bridge.store.messages import envelopes as envelopes_kept
from bridge.store.messages.outcomes import Outcome
from bridge.store.messages.records import NamedBefore
from bridge.store.messages.timelines import transitions
from bridge.store.messages.verdicts import FireVerdict, LeaseVerdict, ReplaceVerdict, RetryVerdict, ScheduleVerdict
from tests.effective import effective
from tests.examples import TIMES
from tests.property import model
from tests.property.world import Broker, Kept, PlacedCopy, World, one_of
from tests.records import claim as a_claim
from tests.records import draft
from tests.records import record as a_record

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
FORGOTTEN_WITHIN_MS = 5_000  # real time expires keys too, so the set clock never stops this shortly before an expiry
LIVE = frozenset((State.WAITING, State.READY, State.LEASED))

NAMES = ("a", "b")
ids = st.sampled_from(NAMES)
at = st.integers(0, 7)
twice = st.booleans()
rarely = st.integers(0, 7).map(lambda drawn: drawn == 7)
delays_ms = st.sampled_from([0, 1, 150, 1_000, 60_000, 2 * DAY_MS, 40 * DAY_MS])
leases_ms = st.sampled_from([1_000, 30_000, 12 * HOUR_MS])
ttls_ms = st.sampled_from([-1, -1, -1, 0, 500, 45_000])
retries = st.integers(0, 2)
labels = st.sampled_from(["", "", "customer=42", "customer=4\nregion=eu"])
envelopes = st.sampled_from([b"", b"\n{}", b"\n" + b"x" * 600])  # the last one is too long for a record
TOKEN = "0f4c19a2b7de"
COPY_SCRIPTS = frozenset(("fire", "returned", "lease", "replay"))
dies = st.sampled_from(["", "", "", "", "before publishing", "before naming", "before acknowledging"])


@dataclass(frozen=True)
class Claim:
    record: Record
    published: bool
    ready: bool
    direct: bool


class Transitions(RuleBasedStateMachine):
    def __init__(self, run: asyncio.Runner, store: Store) -> None:
        super().__init__()
        self.world = World(run, store)
        self.kept: dict[str, Kept] = {name: self.world.kept(name) for name in NAMES}
        self.claims: list[Claim] = []
        self.seen: list[Record] = []  # records as callers have read them, maybe long ago
        self.direct: set[str] = set()
        self.used: set[str] = set()
        self.timelines: dict[str, list[What]] = {}
        self.lost: set[str] = set()  # ids of which Redis has lost a record
        self.entering: dict[str, PlacedCopy] = {}  # by the id that the bridge made, which nobody else knows yet

    def teardown(self) -> None:
        self.world.clear()

    @initialize(begin=st.sampled_from(["", "", "", "", "", "a dead letter", "a former life"]))
    def begins_with(self, begin: str) -> None:
        if begin == "a dead letter":
            self.make_a_dead_letter()
        elif begin:
            self.make_a_former_life()

    def make_a_former_life(self) -> None:
        """Leases a message, empties Redis, and sends and leases another message of the id."""
        for body in (b"former", b"present"):
            self.redis_is_emptied()
            self.go_on(self.world.now_ms + 1)
            self.send(name="a", delay_ms=0, ttl_ms=-1, max_retry=2, direct=False, published=True, twice=False)
            self.confirm(at=0, kept=body, twice=False)
            self.pull(at=0, lease_ms=1_000, counted=True, twice=False, dies="")

    def make_a_dead_letter(self) -> None:
        """Makes the first message of the world a dead letter."""
        self.send(name="a", delay_ms=0, ttl_ms=-1, max_retry=0, direct=False, published=True, twice=False)
        self.confirm(at=0, kept=b"\n" + b"x" * 600, twice=False)
        self.pull(at=0, lease_ms=1_000, counted=True, twice=False, dies="")
        self.nack(at=0, delay_ms=0, body_kept=True, twice=False, dies="")

    # -- parts of the rules

    def broker(self, name: str) -> Broker:
        return self.world.broker(name)

    def record(self, name: str) -> Record | None:
        return self.kept[name].record

    def run_script(self, name: str, call: Call[Any], *, twice: bool = False, cause: str = "") -> Outcome[Any]:
        before = self.record(name)
        if twice:
            self.run_late(name, call)
        first: Outcome[Any]
        first, *again = self.world.ask(call, twice=twice)
        self.kept[name] = self.world.kept(name)
        after = self.record(name)
        for second in again:
            assert second.verdict in {first.verdict, *model.SECOND_TIME.get(first.verdict, ())}
            if (first.verdict, second.verdict) == (FireVerdict.RELEASE, FireVerdict.MADE):
                first = replace(first, record=second.record)  # it may be another message of a client under the id
            assert first.record is None or second.record == first.record
        # A lease before the moment makes no record, and answers the one that there would be.
        is_made = after is not None or first.verdict is not LeaseVerdict.HOLD
        assert first.record is None or first.record == after or not is_made
        model.an_end_is_left_only_for_a_new_life(before, after, cause or call.script.name)
        model.a_script_makes_only_its_own_states(before, after, call.script.name)
        if before is not None and model.is_set_aside(before, after, cause or call.script.name):
            self.set_aside(before)
        if after is not None and call.script.name in model.MAKES:
            verdict = FireVerdict.MADE if any(one.verdict is FireVerdict.MADE for one in again) else first.verdict
            self.expect(call, verdict, None if cause == model.FORGOTTEN else before, after)
        if after is not None:
            self.seen.append(after)
        return first

    def expect(self, call: Call[Any], verdict: str, before: Record | None, after: Record) -> None:
        """Adds what the script did to the timeline that the message should have."""
        script, at_epoch = call.script.name, call.script.args.index("epoch") if "epoch" in call.script.args else -1
        epoch = int(call.args[at_epoch] or 0) if at_epoch >= 0 and script in COPY_SCRIPTS else 1
        life = self.timelines.setdefault(after.id, [])
        if model.begins(script, epoch, verdict, before, after, now_ms=self.world.now_ms):
            # The scripts tell a send only where the record does not: a client's message has no record of its own yet.
            sent = epoch == 0 or (epoch == 1 and script == "returned")
            life[:] = [What.SENT] if sent or model.tells_the_send(script, call.args[-1], after) else []
            was_untouched, before = epoch <= 1, None
        else:
            was_untouched = before is not None and model.is_untouched(before)
        has_content = script == "change" and call.args[call.script.args.index("content")] == 1
        what = model.transition(script, epoch, verdict, before, after, has_content=has_content)
        if verdict is ReplaceVerdict.REPLACED and before != after:
            life[:] = [What.REPLACED]
        elif what is not None:
            if not life and was_untouched:
                life.append(What.SENT)
            if what is not What.EXTENDED or life[-1:] != [What.EXTENDED]:
                life.append(what)

    def set_aside(self, letter: Record) -> None:
        """The record has another id from now on. The copy keeps the former one, and the service replaces it."""
        aside = aside_id(letter.id, letter.nonce)
        self.timelines[aside] = self.timelines.pop(letter.id, [])
        self.kept[aside] = self.world.kept(aside)
        assert self.record(aside) == replace(letter, id=aside)
        before, after = self.broker(letter.id).dead, self.broker(aside).dead
        for placed in [one for one in before if one.is_named_by(letter)]:
            before.remove(placed)
            placed.copy = replace(placed.copy, id=aside)
            after.append(placed)

    def run_late(self, name: str, call: Call[Any]) -> None:
        """Runs a script a millisecond after the moment of its call, which changes nothing."""
        before, at = self.world.kept(name), call.script.args.index("until_ms")
        late = replace(call, args=(*call.args[:at], self.world.now_ms - 1, *call.args[at + 1 :]))
        with pytest.raises(StoreUnavailable, match="too late"):
            self.world.run([late])
        assert self.world.kept(name) == before

    def put(self, name: str, publication: Publication, *, recorded: bool) -> PlacedCopy:
        parked = 0 if publication.route is not Route.WHEEL else parked_ms(publication.left_ms, exact=publication.exact)
        arrives_ms = self.world.now_ms + parked
        placed = PlacedCopy(copy=publication.copy, arrives_ms=arrives_ms, recorded=recorded, kind=publication.kind)
        broker = self.broker(name)
        where = {Route.WHEEL: broker.wheel, Route.READY: broker.ready, Route.DEAD: broker.dead}[publication.route]
        where.append(placed)
        return placed

    def put_together(self, publications: list[Publication]) -> list[PlacedCopy]:
        """Puts copies into the wheel, several of them as one bundle, and reads them back from its bytes."""
        copies, topic = [one.copy for one in publications], self.world.topic
        packed: list[Packed] = []
        entries = [bundles.Entry(copy.due_ms, data) for copy in copies if (data := encode(copy)) is not None]
        if len(entries) == len(copies) > 1:  # the header of a copy in a life of its own needs a message of its own
            packed = bundles.pack(topic, entries)
        for bundle in packed:
            offsets = bundles.index(bundle.properties, bundle.body).offsets
            for at, (start, end) in zip(bundle.indexes, pairwise(offsets), strict=True):
                copies[at] = decode(topic, bundle.body[start:end], now_ms=self.world.now_ms)
        number = next(self.world.bundles) if packed else 0
        parked = [
            self.put(one.copy.id, replace(one, copy=copy), recorded=True)
            for one, copy in zip(publications, copies, strict=True)
        ]
        for placed in parked:
            placed.bundle = number
        return parked

    def announced(self, name: str, call: Call[Any] | None, *, twice: bool = False) -> bool:
        """Announces a copy, if that is necessary. Returns whether the record then outlives the copy."""
        before = self.record(name)
        if call is not None:
            outcome = self.run_script(name, call, twice=twice)
            assert outcome.verdict == ("unknown" if before is None else "announced")
        # Without an announcement a record that ends from now on is kept long enough.
        return before is not None and (call is not None or not before.forget_ms)

    def perform(self, name: str, decision: Decision, *, recorded: bool, dies: str) -> bool:
        """Carries out a decision as the checkpoint does: publishes, then names. Returns whether the copy can be
        acknowledged."""
        if dies == "before publishing" or isinstance(decision, Hold):
            return False
        if isinstance(decision, Drop):
            return dies == ""
        step = decision.step
        recorded |= isinstance(step, Succeed) and self.announced(name, step.announce)
        self.begin_life(step.publication.copy.id)
        placed = self.put(step.publication.copy.id, step.publication, recorded=recorded)
        if dies == "before naming":
            return False
        if isinstance(step, Succeed):
            before = self.record(name)
            outcome = self.run_script(name, step.name)
            placed.recorded = before is not None
            if outcome.verdict is RetryVerdict.GHOST and before is not None:
                self.refuse(placed)
        return dies != "before acknowledging"

    def refuse(self, placed: PlacedCopy) -> None:
        """The call that was to name this copy is refused. Nobody gets the copy from now on."""
        self.world.refuse(placed.copy)
        self.kept[placed.copy.id] = self.world.kept(placed.copy.id)

    def begin_life(self, name: str) -> None:
        """Watches an id that no sender has chosen."""
        if name not in self.kept:
            self.kept[name] = self.world.kept(name)

    def put_in_its_own_life(self, copy: Copy) -> None:
        """Publishes a copy again under an id of its own."""
        publication = in_its_own_life(copy)
        self.begin_life(publication.copy.id)
        self.put(publication.copy.id, publication, recorded=False)

    def cause(self, script: str, copy: Copy, wanted: str, named: NamedBefore = NamedBefore.MESSAGE) -> str:
        """What may end an end: the script, or a copy that begins a new life."""
        if named is not NamedBefore.FORMER and copy.id not in self.lost and wanted in ("made", "another"):
            assert not model.is_of_forgotten(copy, self.kept[copy.id], NamedBefore.MESSAGE)
        if copy.epoch == 0:
            return model.CLIENTS_OWN
        begins = wanted not in ("ghost", "another") and model.has_forgotten(copy, self.record(copy.id))
        return model.FORGOTTEN if begins and wanted != "ahead" else script

    # -- sending

    def asked(
        self, name: str, *, delay_ms: int, ttl_ms: int, max_retry: int, labels: str = ""
    ) -> Call[Outcome[ScheduleVerdict]]:
        own_id = name if name in self.used else None  # one that nobody has used may be the bridge's
        self.used.add(name)
        by = TOKEN if max_retry else "-"
        asked = a_claim(id=name, ttl_ms=ttl_ms, max_retry=max_retry, nonce=self.world.nonce(), by=by)
        sent = draft(topic=self.world.topic, id=own_id, delay_ms=delay_ms, labels=labels)
        return self.world.records.schedule(sent, asked)

    @rule(
        name=ids,
        delay_ms=delays_ms,
        ttl_ms=ttls_ms,
        max_retry=retries,
        direct=rarely,
        published=st.booleans(),
        twice=twice,
        labels=labels,
    )
    def send(
        self,
        *,
        name: str,
        delay_ms: int,
        ttl_ms: int,
        max_retry: int,
        direct: bool,
        published: bool,
        twice: bool,
        labels: str = "",
    ) -> None:
        wanted = model.scheduled(self.kept[name], self.world.now_ms)
        asked = self.asked(name, delay_ms=delay_ms, ttl_ms=ttl_ms, max_retry=max_retry, labels=labels)
        outcome = self.run_script(name, asked, twice=twice)
        assert outcome.verdict == wanted
        if wanted == "created":
            assert outcome.found.labels == labels
            self.claims.append(Claim(outcome.found, published, delay_ms == 0, direct))
            self.direct.discard(name)
            if direct:
                self.direct.add(name)
            if published:
                copy = first_copy(outcome.found, Envelope())
                way = Route.READY if delay_ms == 0 else Route.WHEEL
                publication = Publication(copy=copy, route=way, left_ms=delay_ms, exact=not direct)
                self.put(name, publication, recorded=True).direct = direct

    @rule(
        delay_ms=delays_ms.filter(bool),
        apart_ms=st.sampled_from([0, 50, 60_000]),
        ttl_ms=ttls_ms,
        max_retry=retries,
        published=st.booleans(),
    )
    def send_together(self, *, delay_ms: int, apart_ms: int, ttl_ms: int, max_retry: int, published: bool) -> None:
        """Sends a batch of messages, due at different moments. Claims them one by one, and publishes one
        bundle."""
        publications: list[Publication] = []
        for name in NAMES:
            delay_ms += apart_ms
            wanted = model.scheduled(self.kept[name], self.world.now_ms)
            asked = self.asked(name, delay_ms=delay_ms, ttl_ms=ttl_ms, max_retry=max_retry)
            outcome = self.run_script(name, asked)
            assert outcome.verdict == wanted
            if wanted == "created":
                self.claims.append(Claim(outcome.found, published, ready=False, direct=False))
                self.direct.discard(name)
                copy = first_copy(outcome.found, Envelope())
                publications.append(Publication(copy=copy, route=Route.WHEEL, left_ms=delay_ms))
        if published:
            self.put_together(publications)

    @precondition(lambda self: any(claim.published for claim in self.claims))
    @rule(at=at, twice=twice, late=st.booleans(), kept=envelopes)
    def confirm(self, at: int, twice: bool, kept: bytes, *, late: bool = False) -> None:
        claim = one_of([claim for claim in self.claims if claim.published], at)
        self.claims.remove(claim)
        name = claim.record.id
        before, shown, claimed_ms = self.record(name), self.shown(name), self.kept[name].claimed_ms
        call = self.world.records.confirm(
            claim.record,
            ready=claim.ready,
            direct=claim.direct,
            answer_by_ms=self.world.now_ms - 1 if late else self.world.now_ms,
            envelope=kept,
        )
        outcome = self.run_script(name, call, twice=twice)
        if before is None:
            assert outcome.verdict == "missing"
        elif outcome.verdict in ("confirmed", "unanswered"):
            assert outcome.found.state is not State.UNCONFIRMED
            assert self.shown(name) == (shown or kept)
            assert self.kept[name].claimed_ms == (claimed_ms if late else 0)
            assert (outcome.verdict == "confirmed") == (self.kept[name].claimed_ms == 0)
        else:
            assert outcome.verdict == "superseded"
            assert before.nonce != claim.record.nonce

    @precondition(lambda self: self.claims)
    @rule(at=at, twice=twice)
    def abandon(self, at: int, twice: bool) -> None:
        claim = one_of(self.claims, at)
        self.claims.remove(claim)
        self.run_script(claim.record.id, self.world.records.abandon(claim.record), twice=twice)

    @precondition(lambda self: any(not claim.published for claim in self.claims))
    @rule(at=at, twice=twice)
    def withdraw(self, at: int, twice: bool) -> None:
        claim = one_of([claim for claim in self.claims if not claim.published], at)
        self.claims.remove(claim)
        before = self.record(claim.record.id)
        call = self.world.records.withdraw(claim.record)
        outcome = self.run_script(claim.record.id, call, twice=twice)
        after = self.record(claim.record.id)
        if before is not None and (before.state, before.nonce) == (State.UNCONFIRMED, claim.record.nonce):
            assert outcome.verdict == "withdrawn"
            alone = before.last_ms <= before.due_ms and not self.world.refused.get(before.id)
            assert (after is None) == (claim.record.epoch == 1 and alone)
        else:
            assert outcome.verdict == "kept"
            assert after == before

    @rule(delay_ms=delays_ms.filter(bool), fast_ms=st.sampled_from([0, 2]), max_retry=retries, direct=st.booleans())
    def publish_under_a_made_id(self, delay_ms: int, fast_ms: int, max_retry: int, *, direct: bool) -> None:
        """`fast_ms`: how much the bridge's estimate of the clock is ahead."""
        nonce = self.world.nonce()
        name = f"made-{nonce}"
        self.kept[name] = self.world.kept(name)
        created_ms = self.world.now_ms + fast_ms
        copy = Copy(
            topic=self.world.topic,
            id=name,
            epoch=1,
            nonce=nonce,
            attempt=1,
            max_retry=max_retry,
            due_ms=created_ms + delay_ms,
            expires_ms=0,
            created_ms=created_ms,
            envelope=Envelope(),
        )
        publication = Publication(copy=copy, route=Route.WHEEL, left_ms=delay_ms + fast_ms, exact=not direct)
        self.entering[name] = self.put(name, publication, recorded=False)
        self.entering[name].direct = direct
        if direct:
            self.direct.add(name)

    @precondition(lambda self: self.entering)
    @rule(at=at, twice=twice, kept=envelopes, dies=rarely, labels=labels)
    def enter(self, at: int, twice: bool, kept: bytes, *, dies: bool, labels: str = "") -> None:
        name = one_of(list(self.entering), at)
        placed = self.entering.pop(name)
        if dies:
            return
        copy, before, shown = placed.copy, self.record(name), self.shown(name)
        entered = a_record(
            topic=copy.topic,
            id=name,
            nonce=copy.nonce,
            created_ms=copy.created_ms,
            due_ms=copy.due_ms,
            expires_ms=copy.expires_ms,
            max_retry=copy.max_retry,
            labels=labels,
        )
        by = TOKEN if kept else "-"
        call = self.world.records.enter(entered, direct=placed.direct, instant=False, envelope=kept, by=by)
        outcome = self.run_script(name, call, twice=twice)
        assert outcome.verdict == model.entered(copy, before, self.world.now_ms)
        if outcome.verdict == "unanswered":
            return
        placed.recorded = True
        if before is None:
            assert (outcome.found.epoch, outcome.found.nonce, outcome.found.due_ms) == (1, copy.nonce, copy.due_ms)
            assert (outcome.found.forget_ms > 0) == placed.direct
            if placed.direct:
                self.direct.add(name)  # Redis may have been emptied since the publish
            assert self.shown(name) == kept
        else:
            assert outcome.found == replace(before, labels=labels)
            assert self.shown(name) == (shown or (kept if before.state in LIVE else b""))

    @rule(name=ids, delay_ms=delays_ms, max_retry=retries, direct=rarely)
    def a_client_delays_by_key_alone(self, name: str, delay_ms: int, max_retry: int, direct: bool) -> None:
        self.used.add(name)
        copy = Copy(
            topic=self.world.topic,
            id=name,
            epoch=0,
            nonce=0,
            attempt=1,
            max_retry=max_retry,
            due_ms=self.world.now_ms + delay_ms,
            expires_ms=0,
            created_ms=self.world.now_ms,
            envelope=Envelope(),
        )
        publication = Publication(copy=copy, route=Route.WHEEL, left_ms=delay_ms, exact=False)
        self.put(name, publication, recorded=False).direct = direct

    # -- the checkpoint

    @precondition(lambda self: self.copies("wheel"))
    @rule(
        at=at,
        paused=rarely,
        believed=st.booleans(),
        kept=envelopes,
        twice=twice,
        dies=dies,
        dies_at=at,
        again=rarely,
        looked=st.booleans(),
    )
    def a_copy_comes_out_of_the_wheel(
        self,
        *,
        at: int,
        paused: bool,
        believed: bool,
        kept: bytes,
        twice: bool,
        dies: str,
        dies_at: int = 0,
        again: bool = False,
        looked: bool = False,
    ) -> None:
        """The checkpoint handles a copy and the others of its bundle. `again`: RabbitMQ redelivers the whole bundle.
        `looked`: one call asks about all of them first, and the superseded ones are dropped."""
        name, placed = one_of(self.copies("wheel"), at)
        together = self.in_bundle(placed) or [(name, placed)]
        for _, one in together if again else ():
            one.done = False
        ghosts = self.superseded(together) if looked else []
        dying_at = dies_at % len(together)
        for place, (of, one) in enumerate(together):
            dying = dies if place == dying_at else ""
            if not one.done:
                one.done = one in ghosts or self.decide(
                    of, one, paused=paused, believed=believed, kept=kept, twice=twice, dies=dying
                )
            if dying:
                for _, other in together:
                    other.done = False
                return
        if all(one.done for _, one in together):
            for of, one in together:
                self.broker(of).wheel.remove(one)

    @precondition(lambda self: any(one.bundle for _, one in self.copies("wheel")))
    @rule(at=at, dies=dies)
    def a_bundle_is_parked_again(self, at: int, dies: str) -> None:
        """The checkpoint puts the copies of a bundle that are far from due into a new one."""
        now_ms = self.world.now_ms
        _, placed = one_of([(name, one) for name, one in self.copies("wheel") if one.bundle], at)
        together = self.in_bundle(placed)
        far = [(name, one) for name, one in together if not one.done and one.copy.due_ms > now_ms + NEAR_MS]
        if dies == "before publishing" or not far:
            return
        number, first_ms = next(self.world.bundles), min(one.copy.due_ms for _, one in far)
        arrives_ms = now_ms + parked_ms(first_ms - now_ms, exact=True)
        for name, one in far:
            self.broker(name).wheel.append(replace(one, bundle=number, arrives_ms=arrives_ms))
            if not dies:
                self.broker(name).wheel.remove(one)
        if dies:
            for _, one in together:
                one.done = False

    def superseded(self, together: list[tuple[str, PlacedCopy]]) -> list[PlacedCopy]:
        """The copies that the script calls ghosts."""
        asked = [(name, one) for name, one in together if one.copy.epoch]
        if not asked:
            return []
        (answer,) = self.world.run([self.world.records.superseded([one.copy for _, one in asked])])
        ghosts = [(name, one) for (name, one), ghost in zip(asked, answer, strict=True) if ghost]
        assert all(model.judged(one.copy, self.kept[name]) == "ghost" for name, one in ghosts)
        # Any other copy can be a ghost by its nonce only.
        assert answer == [model.superseded(one.copy, self.kept[name]) for name, one in asked]
        return [one for _, one in ghosts]

    def decide(
        self, name: str, placed: PlacedCopy, *, paused: bool, believed: bool, kept: bytes, twice: bool, dies: str
    ) -> bool:
        now_ms = self.world.now_ms
        copy = placed.copy
        adopt = believed and copy.asked > 0
        item = Due(tag=1, original=copy, copy=copy, kind=placed.kind, stranded_ms=max(0, placed.arrives_ms - now_ms))
        wanted = model.fired(copy, self.kept[name], now_ms, paused=paused, adopt=adopt, named=named(item))
        call = self.world.records.fire(copy, paused_ms=5_000 if paused else 0, adopt=adopt, named=named(item))
        cause = self.cause("fire", copy, wanted, named(item))
        outcome = self.run_script(name, call, twice=twice, cause=cause)
        assert outcome.verdict == wanted
        if wanted in ("release", "made"):
            assert outcome.found.state is State.READY
            self.direct.discard(name)
        if wanted == "made":
            self.run_script(name, self.world.records.keep(outcome.found, kept), twice=twice)
            assert self.shown(name) == kept
        return self.perform(name, after_fire(self.world.records, item, outcome), recorded=wanted == "hold", dies=dies)

    @precondition(lambda self: self.copies("wheel", direct=True))
    @rule(at=at)
    def a_direct_copy_reaches_its_ready_queue(self, at: int) -> None:
        name, placed = one_of(self.copies("wheel", direct=True), at)
        self.broker(name).wheel.remove(placed)
        self.broker(name).ready.append(placed)

    @precondition(lambda self: self.copies("ready"))
    @rule(at=at, by_ttl=rarely, of_client=rarely, backoff_ms=delays_ms, twice=twice, dies=dies)
    def a_copy_comes_back_from_its_ready_queue(
        self, *, at: int, by_ttl: bool, backoff_ms: int, twice: bool, dies: str, of_client: bool = False
    ) -> None:
        name, placed = one_of(self.copies("ready"), at)
        broker, now_ms = self.broker(name), self.world.now_ms
        copy = placed.copy
        if of_client:
            copy = replace(copy, envelope=replace(copy.envelope, properties={"expiration": "1"}))
        wanted = model.returned(copy, self.kept[name], now_ms, by_ttl=by_ttl)
        call = self.world.records.returned(copy, by_ttl=by_ttl)
        cause = self.cause("returned", copy, wanted)
        outcome = self.run_script(name, call, twice=twice, cause=cause)
        assert outcome.verdict == wanted
        policy = effective(Policy(backoff=Backoff(steps_ms=(backoff_ms,))))
        decision = after_return(self.world.records, placed.copy, outcome, "rejected", policy)
        if self.perform(name, decision, recorded=False, dies=dies):
            broker.ready.remove(placed)

    # -- consumers

    @precondition(lambda self: self.copies("ready"))
    @rule(
        at=at,
        lease_ms=leases_ms,
        counted=rarely.map(lambda drawn: not drawn),
        twice=twice,
        dies=dies,
        dies_at=at,
        many=st.booleans(),
    )
    def pull(
        self,
        *,
        at: int,
        lease_ms: int,
        counted: bool,
        twice: bool,
        dies: str,
        dies_at: int = 0,
        many: bool = False,
    ) -> None:
        taken = self.copies("ready") if many else [one_of(self.copies("ready"), at)]
        if dies == "before publishing":
            return
        leases = [
            replace(lease_copy(placed.copy, self.world.now_ms + lease_ms, counted=counted), nonce=self.world.nonce())
            for _, placed in taken
        ]
        arrives_ms = self.world.now_ms + parked_ms(lease_ms, exact=False)
        announced = [
            self.announced(
                lease.id, self.world.records.announce(lease, arrives_ms=arrives_ms, now_ms=self.world.now_ms)
            )
            for lease in leases
        ]
        parked = self.put_together(
            [Publication(copy=lease, route=Route.WHEEL, left_ms=lease_ms, exact=False) for lease in leases]
        )
        for one, recorded in zip(parked, announced, strict=True):
            one.recorded = recorded
        for place, ((name, placed), lease) in enumerate(zip(taken, parked, strict=True)):
            dying = dies if place == dies_at % len(taken) else ""
            if dying == "before naming":
                return
            self.lease(name, placed, lease, lease_ms=lease_ms, counted=counted, twice=twice)
            if dying == "before acknowledging":
                return
            self.broker(name).ready.remove(placed)

    def lease(
        self, name: str, placed: PlacedCopy, parked: PlacedCopy, *, lease_ms: int, counted: bool, twice: bool
    ) -> None:
        copy, now_ms = placed.copy, self.world.now_ms
        wanted = model.leased(copy, self.kept[name], now_ms)
        call = self.world.records.lease(
            copy,
            next_nonce=parked.copy.nonce,
            lease_ms=lease_ms,
            arrives_in_ms=parked_ms(lease_ms, exact=False),
            counted=counted,
        )
        outcome = self.run_script(name, call, twice=twice, cause=self.cause("lease", copy, wanted))
        parked.recorded = self.record(name) is not None and wanted != "hold"
        assert outcome.verdict == wanted
        if wanted == "leased":
            found = outcome.found
            assert (found.lease_until_ms, found.attempts) == (now_ms + lease_ms, copy.attempt - (not counted))
        elif wanted in ("hold", "ahead"):
            left_ms = outcome.extra if wanted == "hold" else AHEAD_PARKED_MS
            asked = copy.asked + (wanted == "ahead")
            parked_again = replace(copy, asked=asked)
            kind = CopyKind.HOLD if wanted == "hold" else CopyKind.CHECKED
            publication = Publication(copy=parked_again, route=Route.WHEEL, left_ms=left_ms, kind=kind)
            self.put(name, publication, recorded=wanted == "hold" and model.judged(copy, self.kept[name]) == "its")
        elif wanted == "another":
            self.put_in_its_own_life(copy)
        elif wanted == "delivered":
            self.perform(name, Perform(missing_step(self.world.records, copy, outcome)), recorded=False, dies="")

    @precondition(lambda self: self.unleased())
    @rule(at=at, lease_ms=leases_ms, counted=rarely.map(lambda drawn: not drawn), twice=twice)
    def pull_without_a_lease_copy(self, at: int, lease_ms: int, counted: bool, twice: bool) -> None:
        """A consumer pulls a message, and the bridge keeps the delivery unacknowledged."""
        name, placed = one_of(self.unleased(), at)
        now_ms, copy = self.world.now_ms, placed.copy
        lease = replace(lease_copy(copy, now_ms + lease_ms, counted=counted), nonce=self.world.nonce())
        wanted = model.leased(copy, self.kept[name], now_ms)
        call = self.world.records.lease(
            copy,
            next_nonce=lease.nonce,
            lease_ms=lease_ms,
            arrives_in_ms=parked_ms(lease_ms, exact=False) + LATE_MS,
            counted=counted,
            unacked=True,
        )
        outcome = self.run_script(name, call, twice=twice, cause=self.cause("lease", copy, wanted))
        assert outcome.verdict == wanted
        if wanted == "leased":
            assert self.kept[name].delivered == copy.nonce
            placed.lease_copy = lease
        elif wanted == "another":
            self.put_in_its_own_life(copy)
            self.broker(name).ready.remove(placed)
        elif wanted in ("ghost", "expired"):
            self.broker(name).ready.remove(placed)
        elif wanted == "delivered":
            decision = Perform(missing_step(self.world.records, copy, outcome))
            if self.perform(name, decision, recorded=False, dies=""):
                self.broker(name).ready.remove(placed)

    @precondition(lambda self: self.unacked())
    @rule(at=at)
    def a_process_with_deliveries_dies(self, at: int) -> None:
        _, placed = one_of(self.unacked(), at)
        placed.lease_copy = None

    @precondition(lambda self: self.unacked())
    @rule(at=at, twice=twice, asked=st.booleans(), dies=dies)
    def a_lease_copy_is_published_late(self, at: int, twice: bool, asked: bool, dies: str) -> None:
        """`asked`: the process asks first whether the lease has ended."""
        name, placed = one_of(self.unacked(), at)
        lease, before, now_ms = placed.lease_copy, self.record(name), self.world.now_ms
        assert lease is not None
        if asked and self.superseded([(name, PlacedCopy(copy=lease, arrives_ms=0, recorded=False))]):
            assert model.is_left(lease, before)
        else:
            step = late_step(self.world.records, lease, lease.due_ms - now_ms, now_ms)
            parked = self.put(name, step.publication, recorded=before is not None)
            if dies:
                placed.lease_copy = None
                return
            outcome = self.run_script(name, step.name, twice=twice)
            parked.recorded = before is not None
            if before is None:
                assert outcome.verdict == "missing"
            else:
                names_it = model.is_live(before) and (before.epoch, before.nonce) == (lease.epoch, lease.nonce)
                assert outcome.verdict == ("published" if names_it else "ghost")
                assert not names_it or self.kept[name].delivered is None
        self.broker(name).ready.remove(placed)

    @precondition(lambda self: self.unacked())
    @rule(at=at)
    def a_settled_delivery_is_acknowledged(self, at: int) -> None:
        name, placed = one_of(self.unacked(), at)
        assert placed.lease_copy is not None
        if model.is_left(placed.lease_copy, self.record(name)):
            self.broker(name).ready.remove(placed)

    @precondition(lambda self: self.copies("ready"))
    @rule(at=at, reported=st.booleans(), says_created=st.booleans(), twice=twice)
    def an_amqp_consumer_takes_it(self, at: int, reported: bool, says_created: bool, twice: bool) -> None:
        name, placed = one_of(self.copies("ready"), at)
        broker = self.broker(name)
        broker.ready.remove(placed)
        broker.taken.add((max(1, placed.copy.epoch), placed.copy.nonce))
        if reported:
            before, created_ms = self.record(name), placed.copy.created_ms if says_created else None
            call = self.world.records.ack(self.world.topic, name, epoch=None, copy_gone=True, created_ms=created_ms)
            outcome = self.run_script(name, call, twice=twice)
            if before is not None and not before.state.ended:
                is_meant = created_ms in (None, before.created_ms)
                ends = is_meant and model.may_be_received(before, self.world.now_ms)
                assert outcome.verdict == ("acked" if ends else "not_leased" if is_meant else "stale")

    @rule(name=ids, twice=twice)
    def ack_if_delivered(self, name: str, twice: bool) -> None:
        before = self.record(name)
        outcome = self.run_script(name, self.world.records.ack(self.world.topic, name, epoch="delivered"), twice=twice)
        if before is None or before.state is State.UNCONFIRMED:
            assert outcome.verdict == "unknown"
        elif not model.may_be_received(before, self.world.now_ms):
            assert outcome.verdict == "not_leased"
            assert outcome.found == before
        else:
            ends_as_asked = before.state is State.ACKED or not before.state.ended
            assert outcome.verdict == ("acked" if ends_as_asked else "stale")

    @rule(name=ids, at=at, fenced=st.booleans(), twice=twice)
    def ack(self, name: str, at: int, fenced: bool, twice: bool) -> None:
        epoch, nonce = self.receipt(name, at) if fenced else (None, None)
        before = self.record(name)
        call = self.world.records.ack(self.world.topic, name, epoch=epoch, nonce=nonce)
        outcome = self.run_script(name, call, twice=twice)
        if before is None or before.state is State.UNCONFIRMED:
            assert outcome.verdict == "unknown"
            return
        ends_as_asked = before.state is State.ACKED or not before.state.ended
        if fenced:
            ends_as_asked = before.state in (State.LEASED, State.ACKED) and model.is_named(before, epoch, nonce)
        if not ends_as_asked:
            assert outcome.verdict == "stale"
        else:
            assert outcome.verdict == "acked"
            assert outcome.found.state is State.ACKED

    @rule(name=ids, at=at, fenced=st.booleans(), lease_ms=leases_ms, twice=twice)
    def extend(self, name: str, at: int, fenced: bool, lease_ms: int, twice: bool) -> None:
        epoch, nonce = self.receipt(name, at) if fenced else (None, None)
        before = self.record(name)
        call = self.world.records.extend(self.world.topic, name, epoch=epoch, nonce=nonce, lease_ms=lease_ms)
        outcome = self.run_script(name, call, twice=twice)
        if before is not None and before.state is State.LEASED and model.is_named(before, epoch, nonce):
            assert outcome.verdict == "extended"
            assert outcome.found.lease_until_ms == max(before.lease_until_ms, self.world.now_ms + lease_ms)
        else:
            assert outcome.verdict in ("stale", "unknown")

    @precondition(lambda self: self.reads(State.LEASED))
    @rule(at=at, delay_ms=delays_ms, body_kept=st.booleans(), twice=twice, dies=dies)
    def nack(self, at: int, delay_ms: int, body_kept: bool, twice: bool, dies: str) -> None:
        record = one_of(self.reads(State.LEASED), at // 2)
        name = record.id
        message = Message(record=record, envelope=Envelope(body=b"" if body_kept else None))
        step = nack_step(
            self.world.records, message, effective(), now_ms=self.world.now_ms, delay_ms=delay_ms, reason="later"
        )
        self.perform_step(name, step, record, twice=twice, dies=dies)

    # -- changes

    @rule(name=ids, release=st.booleans(), even_releasing=st.booleans(), twice=twice)
    def delete(self, name: str, release: bool, twice: bool, *, even_releasing: bool = False) -> None:
        before = self.record(name)
        call = self.world.records.delete(self.world.topic, name, release=release, even_releasing=even_releasing)
        outcome = self.run_script(name, call, twice=twice)
        if before is None:
            assert outcome.verdict == "unknown"
        elif model.is_releasing(before, self.world.now_ms) and not even_releasing:
            assert outcome.verdict == "releasing"
            assert outcome.found == before
        elif before.state.ended and before.state is not State.DELETED:
            assert outcome.verdict == "ended"
        else:
            assert outcome.found.state is State.DELETED

    @precondition(lambda self: self.reads(State.WAITING))
    @rule(at=at, delay_ms=delays_ms, twice=twice, dies=dies)
    def move(self, at: int, delay_ms: int, twice: bool, dies: str) -> None:
        record = one_of(self.reads(State.WAITING), at // 2)
        name = record.id
        message = Message(record=record, envelope=Envelope(body=b""))
        due_ms = self.world.now_ms + delay_ms
        step = change_step(
            self.world.records, message, Change(), Policy(), now_ms=self.world.now_ms, due_ms=due_ms, instant=True
        )
        self.perform_step(name, step, record, twice=twice, dies=dies)

    @precondition(lambda self: self.reads(State.WAITING))
    @rule(
        at=at,
        delay_ms=st.none() | delays_ms,
        only_later=st.booleans(),
        body=st.sampled_from([None, None, b"{}", b"x" * 600, b"x" * 2_000]),
        ttl_ms=st.sampled_from([None, None, 500, 45_000]),
        max_retry=st.none() | retries,
        labels=st.none() | labels,
        as_seen=st.booleans(),
        twice=twice,
        dies=dies,
    )
    def change(
        self,
        *,
        at: int,
        delay_ms: int | None,
        body: bytes | None = None,
        ttl_ms: int | None = None,
        max_retry: int | None = None,
        labels: str | None = None,
        only_later: bool = False,
        as_seen: bool = False,
        twice: bool = False,
        dies: str = "",
    ) -> None:
        """Changes a message as its caller has read it, maybe long ago. A body of 2,000 bytes is not kept."""
        record, now_ms = one_of(self.reads(State.WAITING), at), self.world.now_ms
        due_ms = None if delay_ms is None else now_ms + delay_ms
        wanted = Change(
            envelope=None if body is None else Envelope(body=body),
            ttl_ms=ttl_ms,
            max_retry=None if max_retry is None else max(max_retry, record.attempts),
            labels=labels,
        )
        step = change_step(
            self.world.records,
            Message(record=record, envelope=Envelope(body=b"")),
            wanted,
            Policy(),
            now_ms=now_ms,
            due_ms=due_ms,
            instant=True,
            keep_body_max=1_000,
            seen=record.version if as_seen else "",
            only_later=only_later,
        )
        before, kept_before = self.record(record.id), self.kept[record.id].kept
        differs = as_seen and before is not None and before.version != record.version
        self.perform_step(record.id, step, record, twice=twice, dies=dies, refused=differs)
        after = self.record(record.id)
        if differs or before is None or after is None or before.version == after.version:
            assert before is None or after is None or before.version == after.version
            assert kept_before == self.kept[record.id].kept
            return
        asked_ms = before.due_ms if due_ms is None else due_ms
        assert after.due_ms == (max(asked_ms, before.due_ms) if only_later else asked_ms)
        left_ms = before.expires_ms and before.expires_ms - before.due_ms
        assert (after.expires_ms and after.expires_ms - after.due_ms) == (left_ms if ttl_ms is None else ttl_ms)
        assert after.max_retry == (before.max_retry if wanted.max_retry is None else wanted.max_retry)
        assert after.labels == (before.labels if labels is None else labels)
        if wanted.envelope is None:
            assert kept_before == self.kept[record.id].kept
        else:
            assert self.shown(record.id) == envelopes_kept.pack(wanted.envelope, 1_000, digested=True)

    @precondition(lambda self: self.reads(*LIVE))
    @rule(at=at, delay_ms=delays_ms, ttl_ms=ttls_ms, max_retry=retries, kept=envelopes, twice=twice, dies=dies)
    def put_another_in_its_place(
        self, *, at: int, delay_ms: int, ttl_ms: int, max_retry: int, kept: bytes, twice: bool, dies: str
    ) -> None:
        record = one_of(self.reads(*LIVE), at // 2)
        now_ms = self.world.now_ms
        due_ms = now_ms + delay_ms
        copy = replace(
            successor(record, Envelope(), nonce=self.world.nonce(), attempt=1, due_ms=due_ms),
            max_retry=max_retry,
            expires_ms=due_ms + ttl_ms if ttl_ms >= 0 else 0,
            created_ms=max(now_ms, record.created_ms + 1),
        )
        announce = self.world.records.announce(copy, arrives_ms=due_ms, now_ms=now_ms)
        recorded = self.announced(record.id, announce, twice=twice)
        parked = self.put(record.id, later(copy, now_ms, CopyKind.MOVE), recorded=recorded)
        call = self.world.records.replace(record, copy, draft(), envelope=kept)
        before = self.record(record.id)
        too_late = before is not None and model.is_releasing(before, now_ms)
        self.name_successor(record.id, call, record, parked, twice=twice, dies=dies, refused=too_late)
        found = self.record(record.id)
        if found is not None and found != before and found.nonce == copy.nonce:
            assert (found.due_ms, found.expires_ms, found.created_ms) == (due_ms, copy.expires_ms, copy.created_ms)
            assert (found.attempts, found.max_retry, found.lease_until_ms) == (0, max_retry, 0)
            assert self.shown(record.id) == kept

    # -- dead letters

    @precondition(lambda self: self.copies("dead"))
    @rule(at=at, max_retry=retries, ttl_ms=ttls_ms, twice=twice, dies=dies)
    def replay(self, at: int, max_retry: int, ttl_ms: int, twice: bool, dies: str) -> None:
        name, placed = one_of(self.copies("dead"), at)
        broker = self.broker(name)
        if dies == "before publishing":
            return
        letter = placed.copy
        now_ms = self.world.now_ms
        copy = replay_copy(letter, now_ms, max_retry=max_retry, ttl_ms=ttl_ms if ttl_ms >= 0 else None)
        expires_ms = copy.expires_ms
        self.put(name, later(copy, now_ms, CopyKind.RETRY), recorded=False)
        if dies == "before naming":
            return
        before, before_kept = self.record(name), self.kept[name]
        call = self.world.records.replay(
            letter, next_nonce=copy.nonce, max_retry=max_retry, due_ms=copy.due_ms, expires_ms=expires_ms
        )
        outcome = self.run_script(name, call, twice=twice)
        if before is None or (before.state is State.DEAD and placed.is_named_by(before)):
            assert outcome.verdict == "replayed"
            found = outcome.found
            assert (found.state, found.attempts) == (State.WAITING, 0)
            assert (found.max_retry, found.expires_ms) == (max_retry, expires_ms)
        elif model.is_of_another_life(letter, before_kept):
            assert outcome.verdict == "another"
        else:
            assert outcome.verdict == "ghost"
        if dies != "before acknowledging":
            broker.dead.remove(placed)

    @rule(name=ids, at=at, fenced=st.booleans(), twice=twice)
    def drop(self, name: str, at: int, fenced: bool, twice: bool) -> None:
        epoch, nonce = self.receipt(name, at) if fenced else (None, None)
        before = self.record(name)
        call = self.world.records.drop(self.world.topic, name, epoch=epoch, nonce=nonce)
        outcome = self.run_script(name, call, twice=twice)
        if before is not None and before.state is State.DEAD and model.is_named(before, epoch, nonce):
            assert outcome.found.state is State.DELETED
        else:
            assert outcome.verdict in ("stale", "unknown")

    # -- time and loss

    @rule(by_ms=st.sampled_from([1, 99, 10_000, HOUR_MS, 8 * DAY_MS]))
    def time_passes(self, by_ms: int) -> None:
        self.go_on(self.world.now_ms + by_ms)

    @rule(at=st.integers(0, 31), short=st.booleans())
    def time_passes_until_something_happens(self, at: int, short: bool) -> None:
        moments = {one.arrives_ms for broker in self.world.brokers.values() for one in broker}
        for kept in self.kept.values():
            if kept.record is not None:
                record = kept.record
                moments |= {record.due_ms, record.expires_ms, record.lease_until_ms, record.forget_ms}
        ahead = sorted(moment for moment in moments if moment > self.world.now_ms)
        if ahead:
            self.go_on(ahead[at % len(ahead)] - short)

    @rule(name=ids, really=rarely)
    def a_record_is_lost(self, name: str, really: bool) -> None:
        if really:
            self.world.lose(name)
            self.lost.add(name)
            self.forgotten(name)

    @rule(name=ids, delay_ms=delays_ms, really=rarely)
    def redis_is_emptied_and_an_id_used_again(self, name: str, delay_ms: int, really: bool) -> None:
        if really:
            self.redis_is_emptied()
            self.send(name=name, delay_ms=delay_ms, ttl_ms=-1, max_retry=2, direct=False, published=True, twice=False)

    def redis_is_emptied(self) -> None:
        self.world.clear()
        self.lost.update(self.kept)
        for name in self.kept:
            self.forgotten(name)

    def go_on(self, to_ms: int) -> None:
        moments = {name: kept.record.forget_ms for name, kept in self.kept.items() if kept.record is not None}
        for moment in sorted(moments.values()):
            if 0 < moment - to_ms < FORGOTTEN_WITHIN_MS:
                to_ms = moment
        for name in self.world.go_on(to_ms, moments):
            self.forgotten(name)

    def forgotten(self, name: str) -> None:
        self.kept[name] = self.world.kept(name)
        self.timelines.pop(name, None)
        self.direct.discard(name)
        for placed in self.broker(name):
            placed.recorded = False

    # -- what callers know

    def shown(self, name: str) -> bytes:
        """The envelope that `look` answers."""
        return self.world.ask(self.world.records.look(self.world.topic, name))[0].packed

    def receipt(self, name: str, at: int) -> tuple[int, int | None]:
        """Epoch and nonce that a consumer may hold in a receipt, most often the latest. Every other one is of an older
        bridge, and has no nonce."""
        held = [(record.epoch, record.nonce) for record in reversed(self.seen) if record.id == name]
        epoch, nonce = one_of(held or [(1, 1)], at // 2)
        return epoch, nonce if at % 2 else None

    def reads(self, *states: State) -> list[Record]:
        """Records as callers have read them while they were in one of the states, the latest first."""
        return [record for record in reversed(self.seen) if record.state in states]

    def copies(self, place: str, *, direct: bool = False) -> list[tuple[str, PlacedCopy]]:
        found: list[tuple[str, PlacedCopy]] = []
        for name, broker in self.world.brokers.items():
            placed: list[PlacedCopy] = getattr(broker, place)
            found += [
                (name, one)
                for one in placed
                if one.lease_copy is None and (not direct or (one.direct and one.arrives_ms <= self.world.now_ms))
            ]
        return found

    def unleased(self) -> list[tuple[str, PlacedCopy]]:
        """The copies in ready queues that may be leased without a lease copy."""
        return [(name, one) for name, one in self.copies("ready") if one.copy.epoch]

    def unacked(self) -> list[tuple[str, PlacedCopy]]:
        """The unacknowledged deliveries of leases without a lease copy."""
        brokers = self.world.brokers.items()
        return [(name, one) for name, broker in brokers for one in broker.ready if one.lease_copy is not None]

    def in_bundle(self, placed: PlacedCopy) -> list[tuple[str, PlacedCopy]]:
        """The copies in the same bundle, with the ids of their messages; none for a copy without a bundle."""
        return [(name, one) for name, one in self.copies("wheel") if one.bundle == placed.bundle > 0]

    def perform_step(
        self, name: str, step: Step[Any], record: Record, *, twice: bool, dies: str, refused: bool = False
    ) -> None:
        """`refused`: the record is no longer of the version that the step asks for."""
        assert isinstance(step, (Update, Succeed))
        announce = step.announce if isinstance(step, Succeed) else None
        recorded = self.announced(name, announce, twice=twice)
        parked = self.put(name, step.publication, recorded=recorded) if isinstance(step, Succeed) else None
        self.name_successor(name, step.name, record, parked, twice=twice, dies=dies, refused=refused)

    def name_successor(
        self,
        name: str,
        call: Call[Any],
        record: Record,
        parked: PlacedCopy | None,
        *,
        twice: bool,
        dies: str,
        refused: bool = False,
    ) -> None:
        if dies in ("before publishing", "before naming"):
            return
        before = self.record(name)
        outcome = self.run_script(name, call, twice=twice)
        if parked is not None:
            parked.recorded = before is not None
            if before is not None and outcome.verdict in ("stale", "releasing"):
                self.refuse(parked)
        as_read = {record.state} if call.script.name != "replace" else LIVE
        if (
            before is not None
            and not refused
            and (before.epoch, before.nonce) == (record.epoch, record.nonce)
            and (before.state in as_read)
        ):
            late = parked is None and call.script.name == "change" and outcome.verdict == "stale"
            assert outcome.verdict in ("nacked", "buried", "changed", "replaced") or late
        elif call.script.name != "bury":
            assert outcome.verdict in ("stale", "unknown", "releasing" if refused else "stale")

    # -- invariants

    @invariant()
    def timelines_tell_the_transitions(self) -> None:
        for name, kept in self.kept.items():
            if kept.record is None or kept.record.state is State.UNCONFIRMED:
                continue
            outcome = self.world.ask(self.world.records.timeline(self.world.topic, name))[0]
            wanted = self.timelines.get(name, [])[-MOST:] or [What.SENT] * model.is_untouched(kept.record)
            found = list(transitions(outcome))
            assert [one.what for one in found] == wanted
            model.a_timeline_is_bounded(kept)

    @invariant()
    def a_call_for_all_copies_finds_those_that_are_superseded(self) -> None:
        self.superseded([(name, one) for name, broker in self.world.brokers.items() for one in broker])

    @invariant()
    def all_invariants_hold(self) -> None:
        for name, kept in self.kept.items():
            broker = self.broker(name)
            found = self.world.kept(name)
            model.the_index_agrees_with_the_record(found)
            model.the_labels_agree_with_the_record(found, self.world.stale)
            model.the_key_expires_when_the_record_is_forgotten(kept)
            model.an_envelope_apart_goes_with_its_record(kept)
            model.a_record_that_waits_or_is_leased_never_expires(kept, direct=name in self.direct)
            model.a_record_outlives_every_copy(kept, broker)
            model.no_more_attempts_than_the_retries_allow(kept)
            model.the_live_copy_stands_on_the_broker(kept, broker)


@contextmanager
def connected_store(redis_node: RedisNode) -> Iterator[tuple[asyncio.Runner, Store]]:
    """An event loop and a store for a state machine, which is not asynchronous."""
    with asyncio.Runner() as run:
        store = Store(redis_node.url, timeout_ms=10_000)
        try:
            yield run, store
        finally:
            run.run(store.close())


@pytest.mark.timeout(600)  # a failure takes long to shrink; without one the test takes less than half a minute
def test_every_transition_keeps_every_promise(redis_node: RedisNode) -> None:
    with connected_store(redis_node) as (run, store):
        run_state_machine_as_test(
            lambda: Transitions(run, store),  # type: ignore[arg-type]
            settings=settings(
                max_examples=80 * TIMES,
                stateful_step_count=40,
                suppress_health_check=list(HealthCheck),
            ),
        )
