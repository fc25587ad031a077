"""Defects of the checkpoint, of bundles and kinds, and of the order of publish, name and acknowledge."""

from __future__ import annotations

from typing import Final

from tests.explore.planted.defect import Change, Planted

_BATCHES: Final = "bridge.loops.checkpoint.batches"
_SESSION: Final = "bridge.loops.checkpoint.session"
_SUCCESSION: Final = "bridge.service.protocol.succession"
_VERDICTS: Final = "bridge.loops.checkpoint.verdicts"

PLANTED: Final = (
    Planted(
        name="a successor is named before it is published",
        changes=(
            Change(
                f"{_SUCCESSION}:Succession.perform",
                "await self._publish(steps, results)\n    await self._name(steps, results)\n    return results",
                "outcomes = [None] * len(steps)\n    await self._name(steps, outcomes)\n"
                "    await self._publish(steps, results)\n"
                "    return [error or outcome for error, outcome in zip(results, outcomes, strict=True)]",
            ),
        ),
        scenario="nack",
        promise="5.",
    ),
    Planted(
        name="a successor that RabbitMQ refused is named",
        changes=(
            Change(
                f"{_SUCCESSION}:Succession._name",
                "if isinstance(step, (Update, Succeed)) and results[at] is None",
                "if isinstance(step, (Update, Succeed))",
            ),
        ),
        scenario="nack",
        promise="5.",
    ),
    Planted(
        name="a message that is asked about ahead is released at once",
        changes=(
            Change(
                f"{_BATCHES}:Batches._perform",
                "wait_ms = min(max(0, case.decision.not_before_ms - now_ms), AHEAD_MS)",
                "wait_ms = 0",
            ),
        ),
        scenario="deliver",
        promise="3.",
    ),
    Planted(
        name="a copy whose verdict no rule names is dropped",
        changes=(
            Change("fire", "return answer('hold', r, wait)", "return answer('defer', r, wait)"),
            Change(
                f"{_BATCHES}:Batches._done",
                "done = Done([], [(item, self._store.clock.now_ms() + _UNNAMED_MS) for item in unnamed], [])",
                "done = Done([item.tag for item in unnamed], [], [])",
            ),
        ),
        mended="a0ee0d3a",
        scenario="move to later",
        promise="5.",
        simulated=False,
    ),
    Planted(
        name="the checkpoint acknowledges a copy before it releases it",
        changes=(
            Change(
                f"{_SESSION}:Session._process",
                "processed = await self._batches.process(items)",
                "consumer.ack([item.tag for item in items if item.tag not in self._bundles])\n"
                "            processed = await self._batches.process(items)",
            ),
        ),
    ),
    Planted(
        name="a bundle is acknowledged with its first copy",
        changes=(
            Change(
                "bridge.loops.checkpoint.bundle_refs:BundleRefs._finish",
                "if self._unfinished[tag]:\n        return False",
                "if self._unfinished[tag]:\n        return True",
            ),
        ),
    ),
    Planted(
        name="a copy that could not be parked counts as parked",
        changes=(Change("bridge.loops.checkpoint.parking:Parking._park", "if error is None:", "if True:"),),
    ),
    Planted(
        name="a held message of an AMQP client can't be read out of a bundle",
        changes=(
            Change(
                "bridge.broker.copies.entries:_copy",
                "nonce=number(nonce, most=_LAST_NONCE)",
                "nonce=number(nonce, least=1, most=_LAST_NONCE)",
            ),
        ),
        mended="318570d6",
        simulated=False,
    ),
    Planted(
        name="a tag of a lost channel acknowledges another delivery",
        changes=(
            Change(
                "bridge.loops.checkpoint.loop:Checkpoint._over_a_channel",
                "session = Session(self._context, self._lane, self.status)",
                "session = Session(self._context, self._lane, self.status)\n"
                "    session._held = vars(self).setdefault('_held', session._held)",
            ),
            # The next session also takes copies out of bundles that the former one has opened.
            Change(
                "bridge.loops.checkpoint.opened:OpenedBundles.take",
                "del self._open[opened.tag]",
                "self._open.pop(opened.tag, None)",
            ),
        ),
        mended="114a338f",
        simulated=False,
    ),
    Planted(
        name="a checked copy passes a direct topic's checkpoint",
        changes=(
            Change(
                "bridge.service.protocol.successors:first",
                "kind = CopyKind.CHECKED if checked else CopyKind.PLAIN",
                "kind = CopyKind.CHECKED if detour or not to_topic else CopyKind.PLAIN",
            ),
        ),
        mended="0edd9c69",
    ),
    Planted(
        name="a copy that is asked about again loses its kind",
        changes=(
            Change(
                f"{_VERDICTS}:_asked_kind",
                "return CopyKind.CHECKED",
                "return CopyKind.CHECKED if item.kind in (CopyKind.PLAIN, CopyKind.CHECKED) else CopyKind.HOLD",
            ),
            Change(
                f"{_VERDICTS}:after_return",
                "_ask_later(copy, 0, CopyKind.CHECKED)",
                "_ask_later(copy, 0, CopyKind.HOLD)",
            ),
            Change(
                "bridge.service.pulling.leasing:_Lease.after",
                "asked=self.copy.asked + 1), CopyKind.CHECKED",
                "asked=self.copy.asked + 1), CopyKind.HOLD",
            ),
        ),
        mended="79a1b4b1",
        simulated=False,
    ),
)
