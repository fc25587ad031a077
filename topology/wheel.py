"""The timing wheel: which slots a delay goes through, and the routing key that takes it there.

    0.0.0.0.30.5.2.orders           30 minutes, 5 seconds and 200 ms for the topic `orders`
    0.0.0.0.30.5.2.!lease.orders    the same for a copy of the kind `lease`

Seven digits, slow to fast: 100 days, 10 days, 1 day, hours, minutes, seconds, tenths. After them, all that is left is
the topic, which may hold dots itself.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from topology.names import KIND, TOPIC, Names

TENTH_MS: Final = 100
SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

MAX_DELAY_MS: Final = 999 * DAY_MS
"""The longest delay. A digit of days has nine slots, and each slot's TTL is below the broker's 315,360,000,000 ms."""


class DelayOutOfRange(ValueError):
    """The delay is below 0 or above MAX_DELAY_MS. `delay_ms` is what was asked for, `limit_ms` the limit it passed."""

    def __init__(self, delay_ms: int) -> None:
        self.delay_ms = delay_ms
        self.limit_ms = MAX_DELAY_MS if delay_ms > 0 else 0
        super().__init__(f"a delay of {delay_ms} ms is out of range: 0 to {MAX_DELAY_MS} ms (999 days)")


@dataclass(frozen=True, kw_only=True)
class Hand:
    """One hand of the wheel: a unit of time and the values that have a slot (0 has none, it is passed over)."""

    name: str
    unit_ms: int
    values: range


HANDS: Final = (
    Hand(name="hundreds-of-days", unit_ms=100 * DAY_MS, values=range(1, 10)),
    Hand(name="tens-of-days", unit_ms=10 * DAY_MS, values=range(1, 10)),
    Hand(name="days", unit_ms=DAY_MS, values=range(1, 10)),
    Hand(name="hours", unit_ms=HOUR_MS, values=range(1, 24)),
    Hand(name="minutes", unit_ms=MINUTE_MS, values=range(1, 60)),
    Hand(name="seconds", unit_ms=SECOND_MS, values=range(1, 60)),
    Hand(name="tenths", unit_ms=TENTH_MS, values=range(1, 10)),
)
"""The hands, slow to fast. The n-th digit of a key is a value of the n-th hand."""

Slot = tuple[str, int]
"""A hand's name and a value of it: what one slot queue stands for."""

# The words a key may have at each place: decimal, no leading zero, since bindings compare words and not numbers.
_WORDS: Final = tuple({str(value): value for value in (0, *hand.values)} for hand in HANDS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Route:
    """Where to publish so that a message waits its delay: `exchange`, `routing_key`, and the slots that must stand."""

    exchange: str
    routing_key: str
    slots: tuple[Slot, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Parsed:
    """What a wheel key says: the whole delay it was published with, the kind (None: a plain copy), the topic."""

    delay_ms: int
    kind: str | None
    topic: str


@dataclass(frozen=True, slots=True)
class _Dial:
    entry: str | None  # the slowest hand whose digit is not 0; None when there is nothing to wait for
    words: str  # the seven digits with a dot after each
    slots: tuple[Slot, ...]


def floor_to_tenth(delay_ms: float) -> int:
    """The longest delay of whole tenths of a second that is not longer; 0 for a negative one."""
    return max(0, int(delay_ms // TENTH_MS) * TENTH_MS)


def ceil_to_tenth(delay_ms: float) -> int:
    """The shortest delay of whole tenths of a second that is not shorter; 0 for a negative one."""
    return max(0, int(-(-delay_ms // TENTH_MS)) * TENTH_MS)


def digits(delay_ms: int) -> tuple[int, ...]:
    """The delay in the seven digits of a key.

    DelayOutOfRange: below 0 or above MAX_DELAY_MS. ValueError: not a whole number of tenths of a second.
    """
    if not 0 <= delay_ms <= MAX_DELAY_MS:
        raise DelayOutOfRange(delay_ms)
    if delay_ms % TENTH_MS:
        raise ValueError(f"a delay of {delay_ms} ms is not a whole number of tenths of a second: round it first")
    values = []
    for hand in HANDS:
        value, delay_ms = divmod(delay_ms, hand.unit_ms)
        values.append(value)
    return tuple(values)


def route(names: Names, delay_ms: int, topic: str, kind: str | None = None) -> Route:
    """The way into the wheel for a delay. The topic and the kind are taken as they are: check them where they come in.

    Raises as `digits` does.
    """
    dial = _dial(delay_ms)
    return Route(
        exchange=names.due if dial.entry is None else names.hand(dial.entry),
        routing_key=f"{dial.words}{topic}" if kind is None else f"{dial.words}!{kind}.{topic}",
        slots=dial.slots,
    )


def parse_key(key: str) -> Parsed | None:
    """Read a routing key; None when it is not a wheel key.

    It is none with fewer than eight words, a digit its hand does not have, a delay above MAX_DELAY_MS, or anything
    but a topic behind the digits.
    """
    *words, rest = key.split(".", len(HANDS))
    if len(words) < len(HANDS):
        return None
    delay_ms = 0
    for word, known, hand in zip(words, _WORDS, HANDS, strict=True):
        value = known.get(word)
        if value is None:
            return None
        delay_ms += value * hand.unit_ms
    kind, topic = None, rest
    if rest.startswith("!"):
        kind, _, topic = rest[1:].partition(".")
    if delay_ms > MAX_DELAY_MS or not TOPIC.fullmatch(topic) or (kind is not None and not KIND.fullmatch(kind)):
        return None
    return Parsed(delay_ms=delay_ms, kind=kind, topic=topic)


@lru_cache(maxsize=65_536)
def _dial(delay_ms: int) -> _Dial:
    values = digits(delay_ms)
    slots = tuple((hand.name, value) for hand, value in zip(HANDS, values, strict=True) if value)
    return _Dial(
        entry=slots[0][0] if slots else None,
        words="".join(f"{value}." for value in values),
        slots=slots,
    )
