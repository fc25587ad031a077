"""Defines a schedule: its spec, and how far it is planned. Converts both to JSON for Redis, and back."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import orjson

from bridge.model.header_values import as_text
from bridge.model.message import Envelope, Target
from bridge.model.values import Draft
from bridge.service.schedules.spans import Span
from bridge.service.schedules.ticks import Missed, Overlap, Rules, wake_ms
from bridge.service.schedules.timing import Tick, Timing, following, tick_id
from bridge.store.kept.schedules import StoredSchedule

MAX_TEMPLATE: Final = 64 * 1024
"""The most bytes of a schedule's message in Redis: body, headers and labels."""

_NO_ENVELOPE: Final = Envelope()


@dataclass(frozen=True, kw_only=True, slots=True)
class Template:
    """The message that a schedule sends at each tick. `ttl_ms`, `max_retry` None: the topic's value. `labels`: as one
    text, a line `key=value` for each."""

    envelope: Envelope = _NO_ENVELOPE
    ttl_ms: int | None = None
    max_retry: int | None = None
    labels: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Spec:
    """The definition that a client gives of a schedule. `template`: the message; None: it was not read from Redis."""

    topic: str
    timing: Timing
    rules: Rules
    template: Template | None

    @property
    def target(self) -> Target | None:
        return None if self.template is None else self.template.envelope.target


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """How far a schedule is planned. Moments are Unix ms of Redis' clock.

    `position_ms`: up to this moment, the bridge has decided which ticks are sent. `unsent`: the ticks that are to be
    sent; some may be sent already. `planned`: the ticks that were or will be sent ahead of their moment, and may not
    have fired. `since_ms`: when the schedule was last made, changed, paused or resumed. `who`: the id of the token that
    asked for the schedule, or a word for a caller without a token. `last_ms`: the latest tick that was sent or refused;
    0: none. `sent`, `missed`, `overlapped`, `refused`: how many ticks were sent, or were not sent for this reason.
    `filled`: the periods that backfills have covered. `failure`: why the latest refused tick was refused; empty: none
    was.
    """

    created_ms: int
    since_ms: int
    position_ms: int
    unsent: tuple[Tick, ...] = ()
    planned: tuple[Tick, ...] = ()
    is_paused: bool = False
    who: str = ""
    last_ms: int = 0
    sent: int = 0
    missed: int = 0
    overlapped: int = 0
    refused: int = 0
    failure: str = ""
    filled: tuple[Span, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    name: str
    spec: Spec
    progress: Progress

    @property
    def wake_ms(self) -> int | None:
        """When the schedule is to be planned next, in Unix ms; None: never."""
        if self.progress.is_paused:
            return None
        if self.progress.unsent:
            return self.progress.since_ms
        return wake_ms(self.spec.timing, self.spec.rules, self.name, self.progress.position_ms)

    def following(self, now_ms: int, count: int) -> list[Tick]:
        """Returns the next `count` ticks after `now_ms`, in Unix ms; none while the schedule is paused."""
        return [] if self.progress.is_paused else following(self.spec.timing, self.name, now_ms, count)

    def waiting(self, now_ms: int) -> tuple[Tick, ...]:
        """Returns the planned ticks that have not fired by `now_ms`, in Unix ms of Redis' clock."""
        return tuple(tick for tick in self.progress.planned if tick.due_ms > now_ms)

    def ids(self, ticks: Sequence[Tick]) -> list[str]:
        """Returns the ids of the messages of these ticks."""
        return [tick_id(self.name, tick.at_ms) for tick in ticks]

    def draft(self, message_id: str, due_ms: int) -> Draft:
        """Returns the draft of a tick's message. `due_ms`: when the message is due, in Unix ms.

        Raises:
            LookupError: the schedule was read without its message.
        """
        template = self.spec.template
        if template is None:
            raise LookupError(f"the message of the schedule {self.name!r} was not read")
        return Draft(
            topic=self.spec.topic,
            envelope=template.envelope,
            id=message_id,
            deliver_at_ms=due_ms,
            ttl_ms=template.ttl_ms,
            max_retry=template.max_retry,
            labels=template.labels,
        )

    def but(self, **changes: Any) -> Schedule:
        """Returns a copy of the schedule with other values for these fields of its progress."""
        return replace(self, progress=replace(self.progress, **changes))


def spec_json(spec: Spec) -> bytes:
    """Returns a spec as JSON. The JSON does not contain the spec's template."""
    return orjson.dumps({"topic": spec.topic, "timing": asdict(spec.timing), "rules": asdict(spec.rules)})


def template_json(template: Template) -> bytes:
    envelope = template.envelope
    return orjson.dumps(
        {
            "content_type": envelope.content_type,
            "headers": dict(envelope.headers),
            "body": b64encode(envelope.body or b"").decode(),
            "ttl_ms": template.ttl_ms,
            "max_retry": template.max_retry,
            "labels": template.labels,
            "to": None if envelope.target is None else (envelope.target.exchange, envelope.target.routing_key),
        },
        default=as_text,
    )


def progress_json(progress: Progress) -> bytes:
    return orjson.dumps({name: value for name, value in asdict(progress).items() if value}, default=tuple)


def read_schedule(stored: StoredSchedule) -> Schedule:
    """Returns the schedule that its JSON in Redis describes. If `stored` has no message, the spec has no template."""
    spec = orjson.loads(stored.spec)
    rules = spec["rules"]
    return Schedule(
        name=stored.name,
        spec=Spec(
            topic=spec["topic"],
            timing=Timing(**spec["timing"]),
            rules=Rules(
                missed=Missed(rules["missed"]), missed_max=rules["missed_max"], overlap=Overlap(rules["overlap"])
            ),
            template=_read_template(orjson.loads(stored.message)) if stored.message else None,
        ),
        progress=_read_progress(orjson.loads(stored.state)),
    )


def _read_template(members: Mapping[str, Any]) -> Template:
    to = members.get("to")  # an older bridge wrote none
    envelope = Envelope(
        content_type=members["content_type"],
        headers=members["headers"],
        body=b64decode(members["body"]),
        target=Target(*to) if to else None,
    )
    return Template(
        envelope=envelope, ttl_ms=members["ttl_ms"], max_retry=members["max_retry"], labels=members["labels"]
    )


def _read_progress(members: Mapping[str, Any]) -> Progress:
    lists = {
        "unsent": tuple(Tick(*tick) for tick in members.get("unsent", ())),
        "planned": tuple(Tick(*tick) for tick in members.get("planned", ())),
        "filled": tuple(Span(*span) for span in members.get("filled", ())),
    }
    return Progress(**{**members, **lists})
