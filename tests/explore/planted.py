"""Defects that the search has to find: each is the smallest change that takes one rule of the protocol away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pytest

from bridge.loops.checkpoint import verdicts
from bridge.service.protocol.deliveries import Acked
from bridge.service.protocol.succession import Succession
from bridge.service.pulling import leasing
from bridge.store.scripts import SCRIPTS


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A defect. `scenario`: the scenario that finds it. `script`: the script that loses `code`, and has `instead` for
    it; or else `patch` changes the bridge's code. `promise`: how the broken promise begins."""

    name: str
    scenario: str
    promise: str
    script: str = ""
    code: str = ""
    instead: str = ""
    patch: Callable[[pytest.MonkeyPatch], None] | None = None

    @contextmanager
    def planted(self) -> Iterator[dict[str, str]]:
        """Plants the defect. Yields the changed texts of scripts by name."""
        with pytest.MonkeyPatch.context() as patch:
            if self.patch is not None:
                self.patch(patch)
            texts = {}
            if self.script:
                text = SCRIPTS[self.script].text
                if text.count(self.code) != 1:
                    raise LookupError(f"{self.script} no longer has {self.code!r}")
                texts[self.script] = text.replace(self.code, self.instead)
            yield texts


def _named_before_publish(patch: pytest.MonkeyPatch) -> None:
    async def perform(self: Any, steps: Any) -> Any:
        results: list[Any] = [None] * len(steps)
        await self._name(steps, results)
        outcomes, results = results, [None] * len(steps)
        await self._publish(steps, results)
        return [error or outcome for error, outcome in zip(results, outcomes, strict=True)]

    patch.setattr(Succession, "perform", perform)


def _acknowledged_whatever_happens(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(leasing, "Put", lambda _, result: Acked(result))


def _released_without_waiting(patch: pytest.MonkeyPatch) -> None:
    perform = verdicts.Perform
    patch.setattr(verdicts, "Perform", lambda step, counts=None, not_before_ms=0: perform(step, counts))


PLANTED: Final = (
    Planted(
        name="a successor is named before it is published",
        scenario="nack",
        promise="5.",
        patch=_named_before_publish,
    ),
    Planted(
        name="a delivery that was not leased is acknowledged",
        scenario="deliver",
        promise="2.",
        patch=_acknowledged_whatever_happens,
    ),
    Planted(
        name="a message that is asked about ahead is released at once",
        scenario="deliver",
        promise="3.",
        patch=_released_without_waiting,
    ),
    Planted(
        name="a tombstone is forgotten at once",
        scenario="delete",
        promise="4.",
        script="delete",
        code="finish(r, ARGV[10], 14, 7, '', TOMBSTONE_MS)",
        instead="finish(r, ARGV[10], 14, 7, '', 0)",
    ),
    Planted(
        name="a delivery in place of its lease copy is taken for a ghost",
        scenario="keep deliveries",
        promise="5.",
        script="lease",
        code="return r[17] == nonce and r[2] == epoch + 1 and live(r)",
        instead="return false",
    ),
    Planted(
        name="a message has any number of deliveries",
        scenario="deliver too often",
        promise="5.",
        script="fire",
        code="if attempt > r[8] + 1 then return answer('bury', r) end",
        instead="",
    ),
    Planted(
        name="two lives of an id count as one",
        scenario="lose Redis and use an id again",
        promise="2.",
        script="fire",
        code="return (r[19] and created_ms < r[19]) or (epoch == 1 and r[2] == 1 and r[3] ~= nonce)",
        instead="return false",
    ),
    Planted(
        name="a record leaves its former index",
        scenario="deliver",
        promise="index",
        script="fire",
        code="if stood and had_state ~= state then redis.call('ZREM', KEYS[2 + had_state], ID) end",
        instead="",
    ),
    Planted(
        name="the copy of an ended message is no ghost",
        scenario="delete",
        promise="life: a: fire moved the record from deleted to waiting",
        script="fire",
        code="or (ended(r) and not (letter(r) and r[2] < epoch))",
        instead="",
    ),
    Planted(
        name="a message is changed in any state",
        scenario="move to later",
        promise="life: a: change moved the record from ready to waiting",
        script="change",
        code="if r[1] ~= 1 or not is(r, tonumber(ARGV[6]), tonumber(ARGV[7]))",
        instead="if not is(r, tonumber(ARGV[6]), tonumber(ARGV[7]))",
    ),
    Planted(
        name="the copy of a lease that was extended ends it",
        scenario="extend",
        promise="3.",
        script="fire",
        code="local wait = math.max(r[5] - now, r[11] - now, tonumber(paused_ms))\n  local leased = r[11] > now",
        instead="local wait = math.max(r[5] - now, tonumber(paused_ms))\n  local leased = false",
    ),
    Planted(
        name="the lease copy of a live lease is taken for a ghost",
        scenario="keep deliveries",
        promise="5.",
        script="superseded",
        code="(r[2] > epoch or is_over)",
        instead="(r[2] >= epoch or is_over)",
    ),
    Planted(
        name="an ended message is given back",
        scenario="keep and nack deliveries",
        promise="life: a: nack moved the record from acked to waiting",
        script="nack",
        code="if r[1] ~= 3 or not is(r,",
        instead="if (r[1] ~= 3 and r[1] < 4) or not is(r,",
    ),
)
