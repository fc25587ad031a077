"""Defects of sends, changes, settlements, dead letters and removals of topics."""

from __future__ import annotations

from typing import Final

from tests.explore.planted.defect import EVERY, Change, Planted

_SUCCESSORS: Final = "bridge.service.protocol.successors"
_TOPICS: Final = "bridge.service.topics.topics"

PLANTED: Final = (
    Planted(
        name="a message is changed in any state",
        changes=(Change("change", "if r[STATE] ~= WAITING or not is(r,", "if not is(r,"),),
        scenario="move to later",
        promise="life: a: change moved the record from ready to waiting",
    ),
    Planted(
        name="an ended message is given back",
        changes=(Change("nack", "if r[STATE] ~= LEASED or", "if (r[STATE] ~= LEASED and r[STATE] < ACKED) or"),),
        scenario="keep and nack deliveries",
        promise="life: a: nack moved the record from acked to waiting",
    ),
    Planted(
        name="a copy that may outlive its tombstone is not announced",
        changes=(Change("bridge.service.protocol.succession:Succession._announce", "if not calls:", "if True:"),),
        mended="7eabca20",
        scenario="edit to later than a tombstone lasts",
        promise="4.",
        simulated=False,
    ),
    Planted(
        name="a successor that is due now does not wait for its record",
        changes=(
            Change(
                f"{_SUCCESSORS}:later",
                "route=Route.WHEEL,",
                "route=Route.WHEEL if copy.due_ms > now_ms else Route.READY,",
            ),
        ),
        mended="47080e96",
        scenario="move to now",
        promise="3.",
        simulated=False,
    ),
    Planted(
        name="an ack by id ends a message that nobody has received",
        changes=(Change("ack", "if asks and not may_be_received(r) then return answer('not_leased', r) end", ""),),
        mended="89c6825b",
        scenario="use an id again",
        promise="2.",
        simulated=False,
    ),
    Planted(
        name="a repeated send makes a second message once the first has ended",
        changes=(
            Change(
                "schedule",
                "if live(r) or (ended(r) and (r[CLAIMED] > 0 or r[CLAIMED] == -nonce)) then",
                "if live(r) then",
            ),
        ),
        mended="a035edc7",
        scenario="send twice in turn",
        promise="1.",
        simulated=False,
    ),
    Planted(
        name="a new message overwrites the dead letter of its id",
        changes=(Change(EVERY, "if not letter(r) then return end", "do return end"),),
        mended="53a2d9ed",
        scenario="bury, and send the id again in turn",
        promise="2.",
        simulated=False,
    ),
    Planted(
        name="a receipt of one life of an id ends another one",
        changes=(
            Change(
                EVERY,
                "return r[EPOCH] == tonumber(epoch) and (nonce == '' or r[NONCE] == tonumber(nonce))",
                "return r[EPOCH] == tonumber(epoch)",
            ),
        ),
        mended="882cbf97",
        scenario="use an id again in turn",
        promise="2.",
        simulated=False,
    ),
    Planted(
        name="a move forgets the delivery in place of a lease copy",
        changes=(
            Change(
                "change",
                "r[DUE], r[LAST] = due, math.max(r[LAST], due)\n",
                "r[DUE], r[LAST], r[DELIVERED] = due, math.max(r[LAST], due), nil\n",
            ),
        ),
        mended="48dd31c1",
        scenario="nack without a body and move in turn",
        promise="2.",
        simulated=False,
    ),
    Planted(
        name="a recorded ack ends a message that waits for its first delivery",
        changes=(
            Change(
                "ack", "local asks = epoch == 'delivered' or (gone and not fenced)", "local asks = epoch == 'delivered'"
            ),
        ),
        mended="57a3eee3",
        scenario="replace and consume over AMQP in turn",
        promise="2.",
        simulated=False,
    ),
    Planted(
        name="a refused send keeps its claim, and a client's message of the id is dropped",
        changes=(
            Change(
                "bridge.service.sending.send_groups:SendGroups._given_up",
                "if isinstance(error, NotPublished):",
                "if False:",
            ),
            Change(
                EVERY,
                "if r[STATE] == UNCONFIRMED or r[STATE] == READY or ended(r) then return true end",
                "if r[STATE] == READY or ended(r) then return true end",
            ),
        ),
        mended="6a9fd070",
    ),
    Planted(
        name="a topic that is used right after its removal is no topic",
        changes=(
            Change(f"{_TOPICS}:Topics.names", "if not listed.marked:", "if True:"),
            Change(f"{_TOPICS}:Topics.known", " and not await self._relist([topic])", ""),
            Change(f"{_TOPICS}:Topics.remove", " and not await self._relist([topic])", ""),
        ),
        mended="b5da9589",
    ),
)
