"""Turns a delay into slots of the timing wheel and a routing key that leads through them.

    0.0.0.0.30.5.2.orders           30 minutes, 5 seconds and 200 ms for the topic `orders`
    0.0.0.0.30.5.2.!lease.orders    this delay for a copy of the kind `lease`

A key has seven numbers, from slow to fast: 100 days, 10 days, 1 day, hours, minutes, seconds, tenths of a second. The
rest of the key is the topic, which may contain dots.
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
"""The longest delay, 999 days. Each of the three digits of days has nine slots, and each slot's TTL is below the
broker's limit of 315,360,000,000 ms."""


class DelayOutOfRange(ValueError):
    """The delay is below 0 or above MAX_DELAY_MS. `limit_ms`: the one of these two limits that `delay_ms` is beyond."""

    def __init__(self, delay_ms: int) -> None:
        self.delay_ms = delay_ms
        self.limit_ms = MAX_DELAY_MS if delay_ms > 0 else 0
        super().__init__(f"a delay of {delay_ms} ms is out of range: it must be 0 to {MAX_DELAY_MS} ms (999 days)")


@dataclass(frozen=True, kw_only=True)
class Hand:
    """One hand of the wheel: a unit of time, and the values that have a slot. The value 0 has no slot: a message with
    the value 0 skips the hand."""

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
"""The hands, from slow to fast. The n-th digit of a key is a value of the n-th hand."""

Slot = tuple[str, int]
"""A slot queue: the name of its hand, and its value. It delays by the value times the hand's unit."""

# By place in a key, its valid words. They have no leading zero, because bindings compare words and not numbers.
_WORDS: Final = tuple({str(value): value for value in (0, *hand.values)} for hand in HANDS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """Where a message enters the wheel to wait for its delay. `exchange`, `routing_key`: those to publish it with.
    `slots`: the slots that it passes, which must be declared first."""

    exchange: str
    routing_key: str
    slots: tuple[Slot, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class WheelKey:
    """A parsed wheel key. `delay_ms` is the whole delay with which the message was published. `kind` None: a plain
    copy."""

    delay_ms: int
    kind: str | None
    topic: str


@dataclass(frozen=True, slots=True)
class _Dial:
    entry: str | None  # the slowest hand whose digit is not 0; None: the delay is 0
    words: str  # the seven numbers with a dot after each
    slots: tuple[Slot, ...]


def floor_to_tenth(delay_ms: float) -> int:
    """Returns a delay in ms, rounded down to a multiple of 100 ms; 0 for a negative delay."""
    return max(0, int(delay_ms // TENTH_MS) * TENTH_MS)


def ceil_to_tenth(delay_ms: float) -> int:
    """Returns a delay in ms, rounded up to a multiple of 100 ms; 0 for a negative delay."""
    return max(0, int(-(-delay_ms // TENTH_MS)) * TENTH_MS)


def digits(delay_ms: int) -> tuple[int, ...]:
    """Returns the seven numbers of a delay, from the hundreds of days to the tenths of a second.

    Raises:
        DelayOutOfRange: the delay is below 0 or above MAX_DELAY_MS.
        ValueError: the delay is not a whole number of tenths of a second.
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


def slots(delay_ms: int) -> tuple[Slot, ...]:
    """Returns the slots of a delay, in the order in which a message waits in them.

    Raises:
        DelayOutOfRange: the delay is below 0 or above MAX_DELAY_MS.
        ValueError: the delay is not a whole number of tenths of a second.
    """
    return _dial(delay_ms).slots


def route(names: Names, delay_ms: int, topic: str, kind: str | None = None) -> Entry:
    """Returns the place at which a message enters the wheel for a delay. Callers must check the topic and the kind.

    Raises:
        DelayOutOfRange: the delay is below 0 or above MAX_DELAY_MS.
        ValueError: the delay is not a whole number of tenths of a second.
    """
    dial = _dial(delay_ms)
    return Entry(
        exchange=names.due if dial.entry is None else names.hand(dial.entry),
        routing_key=f"{dial.words}{topic}" if kind is None else f"{dial.words}!{kind}.{topic}",
        slots=dial.slots,
    )


def parse_key(key: str) -> WheelKey | None:
    """Parses a routing key. None: it is not a wheel key.

    A wheel key has at least eight words. Each digit is a value of its hand, the delay is at most MAX_DELAY_MS, and
    after the digits come an optional kind and a topic.
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
    return WheelKey(delay_ms=delay_ms, kind=kind, topic=topic)


def fault_of_key(key: str) -> str:
    """Returns what is wrong with a routing key that `parse_key` can't parse. For a wrong number, the text names the
    hand, the value and the limit."""
    *words, rest = key.split(".", len(HANDS))
    if len(words) < len(HANDS):
        return f"it has {len(words) + 1} of 8 parts"
    for word, known, hand in zip(words, _WORDS, HANDS, strict=True):
        if word not in known:
            return f"{hand.name} is {word!r}, and must be 0 to {hand.values[-1]} without a leading zero"
    if sum(known[word] * hand.unit_ms for word, known, hand in zip(words, _WORDS, HANDS, strict=True)) > MAX_DELAY_MS:
        return "the delay is over 999 days"
    return f"{rest!r} is not a topic"


@lru_cache(maxsize=65_536)
def _dial(delay_ms: int) -> _Dial:
    values = digits(delay_ms)
    slots = tuple((hand.name, value) for hand, value in zip(HANDS, values, strict=True) if value)
    return _Dial(
        entry=slots[0][0] if slots else None,
        words="".join(f"{value}." for value in values),
        slots=slots,
    )
