"""Judges what happened to the messages of a run: lost, early, delivered too often.

`judge` is pure: it turns events into a `Verdict`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields

from tests.events import Event, What
from tests.life import Life

PROMISES = (
    "lost",
    "early",
    "deleted_but_delivered",
    "over_limit",
    "forgotten",
    "back_after_ack",
    "during_pause",
    "lease_cut",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The ids of messages, by what happened to them. `wrong` holds messages that break a promise. Messages in
    `duplicated` came more often than consumers returned them. At-least-once delivery allows that.
    """

    accepted: tuple[str, ...] = ()
    delivered: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    early: tuple[str, ...] = ()
    duplicated: tuple[str, ...] = ()
    deleted_but_delivered: tuple[str, ...] = ()
    over_limit: tuple[str, ...] = ()
    forgotten: tuple[str, ...] = ()
    back_after_ack: tuple[str, ...] = ()
    during_pause: tuple[str, ...] = ()
    lease_cut: tuple[str, ...] = ()

    @property
    def wrong(self) -> Mapping[str, tuple[str, ...]]:
        """The ids of messages that broke a promise, by the promise."""
        return {name: getattr(self, name) for name in PROMISES if getattr(self, name)}

    def counts(self) -> dict[str, int]:
        return {one.name: len(getattr(self, one.name)) for one in fields(self)}


class _Clock:
    """The steps of Redis' clock: pairs of our moment and the offset from then on."""

    def __init__(self) -> None:
        self._steps = [(0, 0)]

    def step(self, event: Event) -> None:
        self._steps.append((event.at_ms, event.due_ms))

    def slack_ms(self, since_ms: int) -> int:
        """How far apart the offsets since a moment are, and ours, which is 0: moments may be of either clock."""
        if len(self._steps) == 1:
            return 0
        before = max(step for step in self._steps if step[0] <= since_ms)
        offsets = [0, before[1], *(offset for at_ms, offset in self._steps if at_ms > since_ms)]
        return max(offsets) - min(offsets)


def judge(events: Iterable[Event], *, now_ms: int, max_retry: int, forgetful: bool = False) -> Verdict:
    """Judges each message at `now_ms` by its events. Events come in the order in which they were seen.

    `forgetful`: Redis may forget its latest changes, as at a failover. Then a message may come at any moment that was
    asked for, and only `lost` and `early` break a promise. The same holds for messages that were there when Redis was
    emptied.
    """
    lives: dict[str, Life] = {}
    born_ms: dict[str, int] = {}
    clock = _Clock()
    for event in events:
        if event.what is What.CLOCK:
            clock.step(event)
            continue
        if event.what is What.EMPTIED:
            for life in lives.values():
                life.forgetful = True
            continue
        since_ms = born_ms.setdefault(event.message_id, event.at_ms)
        lives.setdefault(event.message_id, Life(forgetful=forgetful)).take(event, max_retry, clock.slack_ms(since_ms))

    def ids(holds: Callable[[Life], bool]) -> tuple[str, ...]:
        return tuple(sorted(one for one, life in lives.items() if holds(life)))

    def known(holds: Callable[[Life], bool]) -> tuple[str, ...]:
        return ids(lambda life: not life.forgetful and holds(life))

    return Verdict(
        accepted=ids(lambda life: life.accepted),
        delivered=ids(lambda life: bool(life.deliveries)),
        duplicated=ids(lambda life: life.duplicated),
        lost=ids(lambda life: life.lost(now_ms)),
        early=ids(lambda life: life.early),
        deleted_but_delivered=known(lambda life: life.deleted_but_delivered),
        over_limit=known(lambda life: life.over_limit(max_retry)),
        forgotten=known(lambda life: life.forgotten),
        back_after_ack=known(lambda life: life.back_after_ack),
        during_pause=known(lambda life: life.during_pause),
        lease_cut=known(lambda life: life.lease_cut),
    )
