"""What a process can do: the calls of the API, and the work for a delivery. Each is the bridge's own code."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from math import inf
from typing import Any, Final, cast

from bridge.broker.copies.classify import Due, Returned
from bridge.broker.copies.copies import to_properties
from bridge.broker.ready.taken import Taken
from bridge.loops.checkpoint.batches import Batches
from bridge.model.errors import BrokerUnavailable
from bridge.model.message import CopyKind, Envelope, new_nonce
from bridge.model.values import Change, Draft, Effective, IfExists
from bridge.service.changing import Changing
from bridge.service.context import Context
from bridge.service.dead.letters import Letters
from bridge.service.dead.taken_ids import Decide, search_then_settle
from bridge.service.protocol.deliveries import settle
from bridge.service.protocol.succession import Succession
from bridge.service.protocol.superseded import superseded
from bridge.service.pulling.lease_copies import late_step
from bridge.service.pulling.leasing import LeaseTerms, Leasing
from bridge.service.reading.lookup import Lookup
from bridge.service.sending.replacing import Replacing
from bridge.service.sending.send_groups import SendGroups, SendRequest
from bridge.service.settling import Settling
from bridge.store.messages.records import Claim
from tests.explore.processes import Delivery, Process, checked, context, unacked_leases
from tests.explore.scenarios import Scenario
from tests.explore.state import DEAD, RETURNED, TOPIC, Placed, Receipt, Task

NEW_BODY: Final = b"2"


@dataclass(frozen=True)
class Work:
    """What an operation has at hand."""

    process: Process
    context: Context
    policy: Effective
    task: Task
    room: int
    body: bytes

    @property
    def settling(self) -> Settling:
        return Settling(self.context, Lookup(self.context), unacked_leases(self.process, room=self.room))


Operation = Callable[..., Coroutine[Any, Any, Any]]


def work(task: Task, process: Process, scenario: Scenario) -> Coroutine[Any, Any, Any]:
    """Begins the operation of a task."""
    policy = checked(scenario.max_retry, scenario.lease_ms)
    at_hand = Work(process, context(process, policy, scenario.keep_body), policy, task, scenario.room, scenario.body)
    return OPERATIONS[task.operation](at_hand, *task.args)


async def _send(work: Work, message_id: str, delay_ms: int, ttl_ms: int = -1, *, fresh: bool = False) -> Any:
    claim = Claim(message_id, ttl_ms, work.policy.max_retry, new_nonce(), "")
    draft_id = None if fresh else message_id
    draft = Draft(topic=TOPIC, id=draft_id, delay_ms=delay_ms, envelope=Envelope(body=work.body))
    request = SendRequest(draft, work.policy, claim, "home", until_s=inf)
    (result,) = await SendGroups(work.context).commit([request])
    return result


async def _send_new(work: Work, message_id: str, delay_ms: int) -> Any:
    """A send without an id, for which the bridge has made this one."""
    return await _send(work, message_id, delay_ms, fresh=True)


async def _replace(work: Work, message_id: str, delay_ms: int) -> Any:
    message = await Lookup(work.context).get(TOPIC, message_id)
    if message.record.state.ended:
        return None
    draft = Draft(
        topic=TOPIC,
        id=message_id,
        delay_ms=delay_ms,
        envelope=Envelope(body=NEW_BODY),
        if_exists=IfExists.REPLACE,
    )
    return await Replacing(work.context, cast("Any", None)).replace(message.record, draft)


async def _change(work: Work, message_id: str, delay_ms: int, *, content: bool = False) -> Any:
    message = await Lookup(work.context).get(TOPIC, message_id)
    change = Change(delay_ms=delay_ms, envelope=Envelope(body=NEW_BODY) if content else None)
    return await Changing(work.context).change(message, change)


async def _edit(work: Work, message_id: str, delay_ms: int) -> Any:
    return await _change(work, message_id, delay_ms, content=True)


async def _delete(work: Work, message_id: str) -> Any:
    return await Changing(work.context).delete(TOPIC, message_id, release=True)


async def _ack(work: Work, receipt: Receipt) -> Any:
    return await work.settling.ack(TOPIC, receipt.id, receipt.text)


async def _ack_by_id(work: Work, message_id: str) -> Any:
    return await work.settling.ack(TOPIC, message_id, None)


async def _nack(work: Work, receipt: Receipt, delay_ms: int) -> Any:
    return await work.settling.nack(TOPIC, receipt.id, receipt=receipt.text, delay_ms=delay_ms, reason="no")


async def _extend(work: Work, receipt: Receipt, lease_ms: int) -> Any:
    return await work.settling.extend(TOPIC, receipt.id, receipt=receipt.text, lease_ms=lease_ms)


async def _pull(work: Work) -> Any:
    """Leases one delivery of the ready queue."""
    taken = _taken(work)
    terms = LeaseTerms(None, counted=True, by="")
    leasing = Leasing(work.context, unacked_leases(work.process, room=work.room))
    (leased,) = await leasing.lease(TOPIC, [(cast("Taken", taken), terms)], work.policy)
    return leased


async def _record_ack(work: Work) -> Any:
    """Records the ack of an AMQP consumer, who has acknowledged the copy itself."""
    work.process.is_acked = True
    copy = _placed(work).copy.copy()
    await work.context.store.run([work.context.records.ack(TOPIC, copy.id, epoch=None, copy_gone=True)])


async def _arrive(work: Work) -> Any:
    """Handles a copy at the checkpoint."""
    placed = _placed(work)
    copy = placed.copy.copy()
    item: Due | Returned
    if placed.place == RETURNED:
        item = Returned(0, copy, copy, str(placed.kind))
    else:
        kind = CopyKind(placed.kind)
        waited_ms = None if copy.asked or kind is CopyKind.HOLD else placed.waited_ms  # as `classify` knows it
        item = Due(0, copy, copy, kind=kind, waited_ms=waited_ms)
    batches = Batches(work.context, 0)
    batches._arrivals = cast("Any", _Unnoted())
    done = await batches.process([item])
    if done.done:
        work.process.is_acked = True
    elif done.held:
        work.process.held_until_ms = round(done.held[0][1])
    return None


async def _publish_lease_copy(work: Work) -> Any:
    """Publishes the lease copy of an unacknowledged delivery, unless its message has ended."""
    lease = work.task.lease
    if lease is None:
        raise LookupError("the task has no lease")
    copy, records, store = lease.copy.copy(), work.context.records, work.context.store
    if not await superseded(store, records, {0: copy}):
        now_ms = work.process.now_ms
        step = late_step(records, copy, lease.until_ms - now_ms, now_ms)
        (result,) = await Succession.of_copies(work.context).perform([step])
        if isinstance(result, BrokerUnavailable):
            raise result
    work.process.is_acked = True


async def _replay(work: Work) -> Any:
    return await _settle_letter(work, Letters(work.context).replay)


async def _drop(work: Work) -> Any:
    return await _settle_letter(work, Letters(work.context).drop)


async def _settle_letter(work: Work, decide: Decide) -> Any:
    """Settles a dead letter as a sweep of the dead-letter queue does."""
    letter = _placed(work).copy.copy()
    succession = Succession.of_calls(work.context)
    searched = search_then_settle(work.context.records, letter, decide)
    (settlement,) = await settle(succession, [cast("Taken", _taken(work))], [searched])
    return settlement.result


class _Unnoted:
    """Arrivals that nobody waits for."""

    def note(self, _: object) -> None: ...


def _placed(work: Work) -> Placed:
    if work.task.taken is None:
        raise LookupError("the task has no delivery")
    return work.task.taken


def _taken(work: Work) -> Delivery:
    copy = _placed(work).copy.copy()
    return Delivery(work.process, to_properties(copy), copy.envelope.body or b"")


OPERATIONS: Final[dict[str, Operation]] = {
    "send": _send,
    "send a new id": _send_new,
    "replace": _replace,
    "move": _change,
    "edit": _edit,
    "delete": _delete,
    "ack": _ack,
    "ack by id": _ack_by_id,
    "nack": _nack,
    "extend": _extend,
    "pull": _pull,
    "record an ack": _record_ack,
    "arrive": _arrive,
    "publish the lease copy": _publish_lease_copy,
    "replay": _replay,
    "drop": _drop,
}

TAKES: Final = {"pull": "ready", "record an ack": "ready", "replay": DEAD, "drop": DEAD}
"""The place from which an operation takes a delivery."""
