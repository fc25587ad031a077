"""Names the scenarios: which calls, consumers and faults are explored together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True)
class Call:
    """A call that clients may make so many times. `args`: the ones behind the receipt, if it needs one."""

    operation: str
    args: tuple[Any, ...] = ()
    times: int = 1


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """What is explored together. `faults`: how many faults a path may have. `empties`, `fails_over`: one of them may be
    that Redis loses all its data, or its latest calls. `consumes`: an AMQP client may acknowledge copies of the ready
    queue; `rejects`: it may reject them so many times. `keep_body`: the largest body that Redis keeps; `body`: of each
    message. `room`: how many deliveries a process keeps unacknowledged. `at_once`: how many operations are at work at
    most. `instant`: time passes only between them."""

    name: str
    calls: tuple[Call, ...]
    faults: int = 1
    empties: bool = False
    fails_over: bool = False
    consumes: bool = False
    rejects: int = 0
    max_retry: int = 1
    lease_ms: int = 60_000
    keep_body: int = 1_000
    body: bytes = b"1"
    room: int = 0
    at_once: int = 2
    instant: bool = False


_SOON: Final = 2_000
_LATER: Final = 3_600_000
_AFTER_TOMBSTONE: Final = 8 * 86_400_000
_SEND: Final = Call("send", ("a", _SOON))
_SEND_LATER: Final = Call("send", ("a", _LATER))
_PULL: Final = Call("pull")
_PULLS: Final = Call("pull", times=2)
_ACK: Final = Call("ack")
_SEND_TWICE: Final = Call("send", ("a", _SOON), times=2)

SCENARIOS: Final = (
    Scenario(name="deliver", calls=(_SEND, _PULLS, _ACK), faults=2),
    Scenario(name="deliver at once", calls=(Call("send", ("a", 0)), _PULLS, _ACK)),
    Scenario(name="keep deliveries", calls=(_SEND, _PULLS, _ACK), room=1, faults=2),
    Scenario(name="keep and nack deliveries", calls=(_SEND, _PULLS, Call("nack", (1_000,)), _ACK), room=1),
    Scenario(name="send twice", calls=(_SEND_TWICE, _PULL, _ACK)),
    Scenario(name="use an id again", calls=(_SEND_TWICE, _PULL, Call("ack by id", ("a",)))),
    Scenario(name="two messages", calls=(_SEND, Call("send", ("b", _SOON)), Call("delete", ("a",)), _PULL)),
    Scenario(name="make the id", calls=(Call("send a new id", ("a", _SOON)), _PULL, Call("delete", ("a",))), faults=2),
    Scenario(name="delete", calls=(_SEND, Call("delete", ("a",)), _PULL, _ACK), faults=2),
    Scenario(name="move", calls=(_SEND_LATER, Call("move", ("a", _SOON)), _PULL, _ACK), faults=2),
    Scenario(name="move to later", calls=(_SEND, Call("move", ("a", _LATER)), _PULL, _ACK), faults=2),
    Scenario(name="move and delete", calls=(_SEND_LATER, Call("move", ("a", _SOON)), Call("delete", ("a",)), _PULL)),
    Scenario(name="edit", calls=(_SEND, Call("edit", ("a", _LATER)), Call("move", ("a", _SOON)), _PULL)),
    Scenario(name="replace", calls=(_SEND, Call("replace", ("a", _SOON)), _PULL, _ACK)),
    Scenario(
        name="replace and move", calls=(_SEND_LATER, Call("replace", ("a", _LATER)), Call("move", ("a", _SOON)), _PULL)
    ),
    Scenario(name="nack", calls=(_SEND, _PULLS, Call("nack", (1_000,), times=2)), faults=2),
    Scenario(
        name="deliver too often",
        calls=(_SEND, Call("pull", times=3), Call("nack", (1_000,), times=2)),
        faults=0,
        max_retry=0,
    ),
    Scenario(
        name="move twice",
        calls=(_SEND_LATER, Call("move", ("a", _SOON)), Call("move", ("a", 60_000)), _PULL),
        faults=0,
    ),
    Scenario(
        name="nack a lease that ended",
        calls=(_SEND, _PULLS, Call("nack", (_LATER,), times=2), Call("delete", ("a",))),
        faults=0,
    ),
    Scenario(name="keep a large body", calls=(_SEND, _PULLS, Call("nack", (1_000,)), _ACK), body=b"1" * 600),
    Scenario(
        name="edit a large body", calls=(_SEND, Call("edit", ("a", _LATER)), Call("delete", ("a",))), body=b"1" * 600
    ),
    Scenario(name="nack without a body", calls=(_SEND, _PULLS, Call("nack", (1_000,)), _ACK), keep_body=0),
    Scenario(name="extend", calls=(_SEND, _PULLS, Call("extend", (120_000,)), _ACK), faults=0),
    Scenario(
        name="bury and replay", calls=(_SEND, _PULLS, Call("nack", (0,)), Call("replay"), Call("drop")), max_retry=0
    ),
    Scenario(
        name="use the id of a dead letter",
        calls=(_SEND_TWICE, _PULL, Call("nack", (0,)), Call("replay")),
        max_retry=0,
    ),
    Scenario(
        name="expire", calls=(Call("send", ("a", _SOON, 1_000)), _PULL, _ACK, Call("move", ("a", _LATER))), faults=2
    ),
    Scenario(name="consume over AMQP", calls=(_SEND, Call("record an ack"), _PULL), consumes=True, rejects=2),
    Scenario(name="lose Redis", calls=(_SEND, _PULLS, _ACK), empties=True, faults=2),
    Scenario(name="lose Redis and use an id again", calls=(_SEND_TWICE, _PULLS, _ACK), empties=True),
    Scenario(name="lose Redis and replace", calls=(_SEND, Call("replace", ("a", _SOON)), _PULL, _ACK), empties=True),
    Scenario(name="lose Redis and keep deliveries", calls=(_SEND, _PULLS, _ACK), empties=True, room=1),
    Scenario(name="move to now", calls=(_SEND_LATER, Call("move", ("a", 0)), Call("delete", ("a",)), _PULL)),
    Scenario(
        name="edit to later than a tombstone lasts",
        calls=(_SEND, Call("edit", ("a", _AFTER_TOMBSTONE)), Call("delete", ("a",))),
        at_once=1,
        instant=True,
    ),
    Scenario(name="move in turn", calls=(_SEND_LATER, Call("move", ("a", _SOON)), _PULL), at_once=1, instant=True),
    Scenario(
        name="nack without a body and move in turn",
        calls=(_SEND, _PULLS, Call("nack", (1_000,)), Call("move", ("a", _LATER))),
        keep_body=0,
        room=1,
        at_once=1,
        instant=True,
    ),
    Scenario(
        name="lease while RabbitMQ is slow",
        calls=(Call("send", ("b", 8_000)), Call("send", ("a", 0)), _PULLS),
        faults=0,
        at_once=1,
    ),
    Scenario(
        name="bury, and send the id again in turn",
        calls=(_SEND_TWICE, _PULL, Call("nack", (0,)), Call("replay")),
        max_retry=0,
        faults=0,
        at_once=1,
        instant=True,
    ),
    Scenario(name="send twice in turn", calls=(_SEND_TWICE, _PULL, _ACK), at_once=1, instant=True),
    Scenario(
        name="use an id again in turn",
        calls=(_SEND_TWICE, _PULLS, Call("ack", times=2)),
        faults=0,
        at_once=1,
        instant=True,
    ),
    Scenario(
        name="expire while leased",
        calls=(Call("send", ("a", _SOON, 1_000)), _PULL, Call("extend", (120_000,)), _ACK),
        faults=0,
        at_once=1,
        instant=True,
    ),
    Scenario(
        name="replace and consume over AMQP in turn",
        calls=(_SEND, Call("replace", ("a", _LATER)), Call("record an ack")),
        consumes=True,
        at_once=1,
        instant=True,
    ),
    Scenario(
        name="fail over and use an id again in turn",
        calls=(_SEND_TWICE, _PULLS, _ACK),
        fails_over=True,
        at_once=1,
        instant=True,
    ),
)
