"""Reads from the scripts' headers how each script moves a record from state to state, and checks moves. Pure.

A header says this in two lines, such as these of `lua/delete.lua`:

    -- Life: live -> deleted (deleted)
    -- Also: unconfirmed -> deleted (deleted)

`Life` has the moves of a usual life, which docs/guarantees.md draws. `Also` has those after a crash, a lost call or a
loss of Redis, of an id that is used again, and of AMQP clients' own messages. The word in brackets is the one that the
script writes into the timeline. `live`: waiting, ready or leased; `ended`: acked, expired, dead or deleted. `=>`:
another message takes the record. `_record.lua` says which records Redis forgets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from typing import Final, NamedTuple

from bridge.model.message import State
from bridge.model.timeline import BEGINNINGS, What
from bridge.store.scripts import SCRIPTS

NONE: Final = "none"
"""There is no record."""

FORGETTING: Final = "_record"
"""What stands for Redis among the scripts: it forgets a record by the expiry of its key."""

LIVE: Final = tuple(state.label for state in (State.WAITING, State.READY, State.LEASED))
STATES: Final = (NONE, *(state.label for state in State))
_GROUPS: Final = {
    "live": LIVE,
    "ended": tuple(state.label for state in State if state.ended),
}
_PART: Final = re.compile(
    r"(?P<before>[a-z]+(?: [a-z]+)*) (?P<arrow>[-=]>) (?P<after>[a-z]+(?: [a-z]+)*)(?: \((?P<words>[a-z ]+)\))?"
)


class Arrow(NamedTuple):
    """A script moves a record from a state to a state, or leaves it in its state and changes what it says.

    `replaces`: only if another message takes the record. Both states are `none` or the label of a `State`."""

    script: str
    before: str
    after: str
    replaces: bool = False


class Named(NamedTuple):
    """What a record says of its message: its state, the message, the live copy, and when that is due."""

    state: int
    created_ms: int
    epoch: int
    nonce: int
    due_ms: int
    lease_until_ms: int


class Table(NamedTuple):
    """`arrows`: all, each with its words. `drawn`: those of a usual life."""

    arrows: dict[Arrow, tuple[str, ...]]
    drawn: dict[Arrow, tuple[str, ...]]

    def arrow(self, script: str, before: Named | None, after: Named | None) -> Arrow | None:
        """Returns the arrow of a call that changed a record; None if it changed nothing.

        Raises:
            LookupError: the header of the script does not name the move.
        """
        if before == after:
            return None
        arrow = Arrow(script, _label(before), _label(after))
        of_another = before is not None and after is not None and before.created_ms != after.created_ms
        if of_another and (taken := arrow._replace(replaces=True)) in self.arrows:
            return taken
        if arrow in self.arrows:
            return arrow
        raise LookupError(
            f"{script} moved the record from {arrow.before} to {arrow.after}, which its header does not name"
        )

    def misfit(self, words: Sequence[What], state: State) -> str:
        """Returns what no life within the table explains of a timeline, whose record is in `state`. Empty: nothing.

        The timeline may miss its beginning, and moves that have no word."""
        arrows = [(arrow, said) for arrow, said in self.arrows.items() if not arrow.replaces and arrow.after != NONE]
        silent = [arrow for arrow, said in arrows if not said]
        may_be = {*STATES}
        for at, word in enumerate(words):
            if word in BEGINNINGS and at:
                return f"{word} is no beginning"
            before = may_be
            may_be = {arrow.after for arrow, said in arrows if word in said and arrow.before in before}
            if not may_be:
                return f"{word} from {' or '.join(sorted(before))}"
            while further := {arrow.after for arrow in silent if arrow.before in may_be} - may_be:
                may_be |= further
        return "" if state.label in may_be else f"{state.label} from {' or '.join(sorted(may_be))}"


def read(headers: Iterable[tuple[str, str]]) -> Table:
    """Reads the table. `headers`: names of scripts and their texts.

    Raises:
        ValueError: a line does not have the form above.
    """
    table = Table({}, {})
    for name, text in headers:
        for line, part in _parts(text):
            for arrow, words in _arrows(name, part):
                if arrow in table.arrows and line == "Life":
                    raise ValueError(f"{name} names a move twice: {arrow}")
                table.arrows[arrow] = (*table.arrows.get(arrow, ()), *words)
                if line == "Life":
                    table.drawn[arrow] = words
    return table


def _label(record: Named | None) -> str:
    return NONE if record is None else State(record.state).label


def _parts(text: str) -> Iterator[tuple[str, str]]:
    """Yields the parts of a header's lines, with the name of their line."""
    for line, rest in re.findall(r"^-- (Life|Also): (.*(?:\n-- {7}.*)*)$", text, re.MULTILINE):
        for part in re.sub(r"\s*\n-- +", " ", rest).split("; "):
            yield line, part


def _arrows(script: str, part: str) -> Iterator[tuple[Arrow, tuple[str, ...]]]:
    if (found := _PART.fullmatch(part)) is None:
        raise ValueError(f"{script} has a part without the form `states -> states (words)`: {part!r}")
    for before in _states(script, found["before"]):
        for after in _states(script, found["after"]):
            yield Arrow(script, before, after, found["arrow"] == "=>"), tuple((found["words"] or "").split())


def _states(script: str, names: str) -> Iterator[str]:
    for name in names.split():
        if name not in _GROUPS and name not in STATES:
            raise ValueError(f"{script} names an unknown state: {name!r}")
        yield from _GROUPS.get(name, (name,))


def _headers() -> Iterator[tuple[str, str]]:
    for name in (*SCRIPTS, FORGETTING):
        yield name, (files("bridge.store") / "lua" / f"{name}.lua").read_text()


TABLE: Final = read(_headers())
