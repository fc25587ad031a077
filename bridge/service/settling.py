"""Settles leased messages: acks, nacks and extends them, through any process.

A receipt names one lease, so a late call cannot settle a message that has been leased again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, assert_never

from bridge.metrics.messages import DEAD, acked
from bridge.model.errors import BridgeError, Conflict, InvalidRequest, LeaseEnded, NotFound, Unavailable
from bridge.model.message import Message, Record, State
from bridge.model.values import AckResult, AckVerdict, Leased, Nack
from bridge.service.context import Context
from bridge.service.nack_steps import nack_step
from bridge.service.protocol import receipts
from bridge.service.protocol.steps import Result, named
from bridge.service.protocol.succession import Succession
from bridge.service.pulling.unacked_leases import UnackedLeases
from bridge.service.reading.lookup import Lookup
from bridge.service.reading.portions import portions
from bridge.store.messages.outcomes import Outcome, read_envelope
from bridge.store.messages.verdicts import BuryVerdict, ExtendVerdict, NackVerdict

_GROUP = 256
_NackVerdict = NackVerdict | BuryVerdict
_Lease = tuple[str, int | Literal["delivered"] | None, int | None]
"""What to ack: a message id, and epoch and nonce of the lease, as in `Receipt`. Epoch "delivered": the live message,
leased or not, if a consumer may have received it. Epoch None: the live message, leased or not."""


class Settling:
    def __init__(self, context: Context, lookup: Lookup, unacked: UnackedLeases) -> None:
        self._store = context.store
        self._records = context.records
        self._succession = Succession.of_calls(context)
        self._topics = context.topics
        self._lookup = lookup
        self._unacked = unacked

    async def ack_receipts(self, topic: str, receipt_texts: Sequence[str]) -> list[AckResult]:
        """Acks leases by their receipts, and returns the results in order. The result for an unreadable receipt is
        `UNKNOWN`.

        Raises:
            StoreUnavailable: some leases may be acked.
        """
        leases: list[_Lease | None] = []
        for text in receipt_texts:
            try:
                leases.append(receipts.read(text))
            except InvalidRequest:
                leases.append(None)
        acked = iter(await self._ack(topic, [lease for lease in leases if lease is not None]))
        return [AckResult(id=None, verdict=AckVerdict.UNKNOWN) if lease is None else next(acked) for lease in leases]

    async def ack_delivered(self, topic: str, message_ids: Sequence[str]) -> list[AckResult]:
        """Acks the live messages of these ids, leased or not, if a consumer may have received them. Returns the results
        in order. The result for a message that waits for its first delivery is `NOT_LEASED`.

        Raises:
            StoreUnavailable: some messages may be acked.
        """
        return await self._ack(topic, [(message_id, "delivered", None) for message_id in message_ids])

    async def ack_ids(self, topic: str, message_ids: Sequence[str]) -> list[AckResult]:
        """Acks the live messages of these ids, leased or not, even if no consumer has received them. Returns the
        results in order. Clients of other queues' wires need this.

        Raises:
            StoreUnavailable: some messages may be acked.
        """
        return await self._ack(topic, [(message_id, None, None) for message_id in message_ids])

    async def ack(self, topic: str, message_id: str, receipt: str | None) -> Message:
        """Acks one message and returns it. `receipt` None: acks the live message, leased or not, if a consumer may have
        received it.

        Raises:
            InvalidRequest: the text is not a receipt, or it is the receipt of another message.
            NotFound: the topic has no message with this id.
            LeaseEnded: the lease of the receipt has ended.
            StoreUnavailable: Redis did not answer.
            Conflict: no consumer has received the message, or it has ended in another way.
        """
        epoch, nonce = _named(message_id, receipt)
        ack = self._records.ack(topic, message_id, epoch="delivered" if epoch is None else epoch, nonce=nonce)
        outcome, looked = await self._store.run_both(ack, self._records.look(topic, message_id))
        match outcome.verdict:
            case AckVerdict.ACKED:
                self._unacked.settled([outcome.found])
                acked(topic, outcome.found.ended_ms - outcome.found.due_ms)
                return Message(record=outcome.found, envelope=read_envelope(looked))
            case AckVerdict.STALE | AckVerdict.NOT_LEASED:
                raise _stale(outcome.found, receipt)
            case AckVerdict.UNKNOWN:
                raise _not_found(topic, message_id)
            case _:
                assert_never(outcome.verdict)

    async def nack(
        self, topic: str, message_id: str, *, receipt: str | None, delay_ms: int | None, reason: str | None
    ) -> Message:
        """Gives a leased message back, so that it is delivered again after `delay_ms`. Returns the message. `delay_ms`
        None: after the topic's back-off. `receipt` None: nacks the present lease. `reason`: why, in the client's words.

        A message whose retries are used up becomes a dead letter. If Redis did not keep the body, the message comes
        back when its lease would have ended, at the earliest. If its retries are also used up, it stays leased until
        then, and then becomes a dead letter.

        Raises:
            InvalidRequest: the text is not a receipt, or it is the receipt of another message.
            NotFound: the topic has no message with this id.
            LeaseEnded: the lease of the receipt has ended.
            Unavailable: a server did not answer.
            Conflict: the message is not leased.
        """
        message = await self._leased(topic, message_id, receipt)
        nack = Nack(receipt=receipt, delay_ms=delay_ms, reason=reason)
        return await self._nack_one(message, nack, counted=True)

    async def nack_receipts(self, topic: str, nacks: Sequence[Nack]) -> list[Record | BridgeError]:
        """Nacks several messages as `nack` does, each by its receipt, in batches of limited bytes. Returns for each, in
        order, the record or the error that `nack` would raise. A receipt that is given twice has the error of an ended
        lease the second time.

        Raises:
            StoreUnavailable: some messages may be nacked.
        """
        results: dict[int, Record | BridgeError] = {}
        leases: dict[int, receipts.Receipt] = {}
        for at, nack in enumerate(nacks):
            try:
                leases[at] = receipts.read(nack.receipt or "")
            except InvalidRequest as error:
                results[at] = error
        weighed = await self._store.run([self._records.weigh(topic, lease.id) for lease in leases.values()])
        given: set[str] = set()
        for portion in portions([outcome.extra for outcome in weighed]):
            results |= await self._nack_portion(topic, nacks, dict([*leases.items()][portion]), given)
        return [results[at] for at in range(len(nacks))]

    async def _nack_portion(
        self, topic: str, nacks: Sequence[Nack], leases: Mapping[int, receipts.Receipt], given: set[str]
    ) -> dict[int, Record | BridgeError]:
        """Nacks messages whose bodies fit in memory together. Returns the results without the bodies. `leases` and the
        results: by the index of the nack. `given`: ids of the messages that the call has nacked; this method adds to
        them."""
        results: dict[int, Record | BridgeError] = {}
        found = await self._lookup.get_many(topic, [lease.id for lease in leases.values()])
        leased: dict[int, Message] = {}
        for (at, lease), message in zip(leases.items(), found, strict=True):
            if message is None:
                results[at] = _not_found(topic, lease.id)
            elif _is_leased(message.record, lease.epoch, lease.nonce) and lease.id not in given:
                given.add(lease.id)
                leased[at] = message
            else:
                results[at] = _stale(message.record, nacks[at].receipt)
        outcomes = await self._nack([(message, nacks[at]) for at, message in leased.items()], topic)
        for (at, message), outcome in zip(leased.items(), outcomes, strict=True):
            nacked = _nacked(message, nacks[at].receipt, outcome)
            results[at] = nacked if isinstance(nacked, BridgeError) else nacked.record
        return results

    async def nack_leased(self, leased: Leased, *, delay_ms: int, reason: str | None, counted: bool = True) -> Message:
        """Nacks a message that the caller has just leased, and returns it. Publishes the successor with the body in
        `leased`, even if Redis did not keep the body. `delay_ms`: the time until the next delivery. `reason`: why, in
        the caller's words. `counted` False: the delivery uses up no retry.

        Raises:
            LeaseEnded: the lease has ended.
            Unavailable: a server did not answer.
        """
        nack = Nack(receipt=leased.receipt, delay_ms=delay_ms, reason=reason)
        return await self._nack_one(leased.message, nack, counted=counted)

    async def _nack_one(self, message: Message, nack: Nack, *, counted: bool) -> Message:
        (outcome,) = await self._nack([(message, nack)], message.record.topic, counted=counted)
        nacked = _nacked(message, nack.receipt, outcome)
        if isinstance(nacked, BridgeError):
            raise nacked
        return nacked

    async def _nack(
        self, nacks: Sequence[tuple[Message, Nack]], topic: str, *, counted: bool = True
    ) -> list[Result[_NackVerdict]]:
        """Nacks leased messages of one topic in one batch. Returns the results of their steps."""
        if not nacks:
            return []
        policy = await self._topics.policy(topic)
        now_ms = self._store.clock.now_ms()
        results = await self._succession.perform(
            [
                nack_step(
                    self._records,
                    message,
                    policy,
                    now_ms=now_ms,
                    delay_ms=nack.delay_ms,
                    reason=nack.reason or "",
                    counted=counted,
                )
                for message, nack in nacks
            ]
        )
        outcomes = [result for result in results if isinstance(result, Outcome)]
        self._unacked.settled([outcome.record for outcome in outcomes if outcome.record is not None])
        for outcome in outcomes:
            if outcome.verdict is BuryVerdict.BURIED:
                DEAD.add(topic, "nacked")
        return results

    async def extend(self, topic: str, message_id: str, *, receipt: str | None, lease_ms: int) -> Message:
        """Makes a lease last for at least `lease_ms` from now, and returns the message. A lease that already lasts
        longer does not change. `receipt` None: extends the present lease of the message.

        Raises:
            InvalidRequest: the text is not a receipt, or it is the receipt of another message.
            NotFound: the topic has no message with this id.
            LeaseEnded: the lease of the receipt has ended.
            StoreUnavailable: Redis did not answer.
            Conflict: the message is not leased.
        """
        epoch, nonce = _named(message_id, receipt)
        extend = self._records.extend(topic, message_id, epoch=epoch, nonce=nonce, lease_ms=lease_ms)
        outcome, looked = await self._store.run_both(extend, self._records.look(topic, message_id))
        match outcome.verdict:
            case ExtendVerdict.EXTENDED:
                return Message(record=outcome.found, envelope=read_envelope(looked))
            case ExtendVerdict.STALE:
                raise _stale(outcome.found, receipt)
            case ExtendVerdict.UNKNOWN:
                raise _not_found(topic, message_id)
            case _:
                assert_never(outcome.verdict)

    async def _leased(self, topic: str, message_id: str, receipt: str | None) -> Message:
        epoch, nonce = _named(message_id, receipt)
        message = await self._lookup.get(topic, message_id)
        if not _is_leased(message.record, epoch, nonce):
            raise _stale(message.record, receipt)
        return message

    async def _ack(self, topic: str, leases: Sequence[_Lease]) -> list[AckResult]:
        results: list[AckResult] = []
        for start in range(0, len(leases), _GROUP):
            group = leases[start : start + _GROUP]
            outcomes = await self._store.run(
                [self._records.ack(topic, message_id, epoch=epoch, nonce=nonce) for message_id, epoch, nonce in group]
            )
            self._unacked.settled([outcome.record for outcome in outcomes if outcome.record is not None])
            results += [_result(message_id, outcome) for (message_id, *_), outcome in zip(group, outcomes, strict=True)]
            ended = [outcome.found for outcome in outcomes if outcome.verdict is AckVerdict.ACKED]
            acked(topic, *(record.ended_ms - record.due_ms for record in ended))
        return results


def _result(message_id: str, outcome: Outcome[AckVerdict]) -> AckResult:
    record = outcome.record
    message = None if record is None else Message(record=record, envelope=None)
    return AckResult(id=message_id, verdict=outcome.verdict, message=message)


def _is_leased(record: Record, epoch: int | None, nonce: int | None) -> bool:
    """Whether the record has the lease of this epoch and nonce. None: any."""
    return record.state is State.LEASED and epoch in (None, record.epoch) and nonce in (None, record.nonce)


def _nacked(message: Message, receipt: str | None, result: Result[_NackVerdict]) -> Message | BridgeError:
    """Returns the nacked message, or the error because of which it is not nacked."""
    if isinstance(result, Unavailable):
        return result
    outcome = named(result)
    match outcome.verdict:
        case NackVerdict.NACKED | BuryVerdict.BURIED:
            return Message(record=outcome.found, envelope=message.envelope)
        case NackVerdict.STALE | NackVerdict.UNKNOWN | BuryVerdict.GHOST:
            return _stale(outcome.record, receipt)
        case _:
            assert_never(outcome.verdict)


def _named(message_id: str, receipt: str | None) -> tuple[int | None, int | None]:
    """Returns epoch and nonce of the lease that the receipt names. Without a receipt, both are None. If the receipt has
    no nonce, the nonce is None."""
    if receipt is None:
        return None, None
    lease = receipts.read(receipt)
    if lease.id != message_id:
        raise InvalidRequest.of("receipt", receipt, message_id, "is the receipt of another message")
    return lease.epoch, lease.nonce


def _not_found(topic: str, message_id: str) -> NotFound:
    return NotFound(f"there is no message {message_id!r} in the topic {topic!r}")


def _stale(record: Record | None, receipt: str | None) -> Conflict:
    state = None if record is None else record.state.label
    if receipt is not None:
        return LeaseEnded(f"the lease of this receipt has ended; the message is {state}", state=state)
    return Conflict(f"the message is not leased: it is {state}", state=state)
