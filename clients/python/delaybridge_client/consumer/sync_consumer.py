"""Consumes topics without asyncio: one message at a time. A thread extends the lease while the handler runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta

from delaybridge_client.consumer.reports import Counts, Late, Reports
from delaybridge_client.consumer.terms import ONCE, STOPPED, Terms, reason_of
from delaybridge_client.errors import Conflict, DelaybridgeError, NotFound, Problem
from delaybridge_client.operations import ack_many, extend, nack
from delaybridge_client.retries import is_temporary
from delaybridge_client.sender import SyncSender
from delaybridge_client.values.message import LeasedMessage


def consume(
    sender: SyncSender,
    terms: Terms,
    handle: Callable[[LeasedMessage], object],
    stop: threading.Event,
    on_late: Callable[[Late], None] | None = None,
) -> Counts:
    """Calls the handler for one message after the other until `stop` is set, and acks each message. If the handler
    raises an error, nacks the message with the error as the reason.

    Raises:
        DelaybridgeError: the bridge refused a pull, for example because of the token. If no bridge answers, the
            function tries again.
    """
    reports, failed, takes_acks = Reports(on_late), 0, True
    handled: list[LeasedMessage] = []  # the next pull acks them
    try:
        while not stop.is_set():
            try:
                pulled = sender.call(terms.pull(1, handled), retries=ONCE)
            except DelaybridgeError as error:
                acks = _ack_all(sender, handled, reports)
                if is_temporary(error):
                    failed += 1
                    reports.pull_failed(error)
                    asked_s = error.retry_after_s if isinstance(error, Problem) else None
                    stop.wait(max(sender.settings.retries.pause_s(failed), asked_s or 0.0))
                elif acks:
                    takes_acks = False  # the bridge may be too old
                else:
                    raise
                continue
            failed = 0
            for message, acked in zip(handled, pulled.acked, strict=False):
                _note(message, acked.result, reports)
            del handled[: len(pulled.acked)]
            _ack_all(sender, handled, reports)
            reports.pulled(len(pulled))
            handled += [message for message in pulled if _is_handled(sender, terms, handle, message, reports)]
            if not takes_acks:
                _ack_all(sender, handled, reports)
    finally:
        _ack_all(sender, handled, reports)
    return reports.counts


def _is_handled(
    sender: SyncSender,
    terms: Terms,
    handle: Callable[[LeasedMessage], object],
    message: LeasedMessage,
    reports: Reports,
) -> bool:
    """Calls the handler, and nacks the message if the handler raises an error. Returns whether the message is to be
    acked."""
    with _kept(sender, terms, message):
        try:
            handle(message)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next message goes on
            reports.failed(message, error)
            _nack(sender, message, reports, reason_of(error), None)
            return False
        except BaseException:
            _nack(sender, message, reports, STOPPED, timedelta())
            raise
    return True


def _ack_all(sender: SyncSender, handled: list[LeasedMessage], reports: Reports) -> int:
    """Acks the messages that no pull has acked, and empties `handled`. Returns how many they were."""
    count = len(handled)
    while handled:
        _ack(sender, handled.pop(), reports)
    return count


def _ack(sender: SyncSender, message: LeasedMessage, reports: Reports) -> None:
    try:
        (result,) = sender.call(ack_many(message.topic, receipts=[message.receipt]))
    except DelaybridgeError as error:
        if not is_temporary(error):
            raise
        reports.late(message, str(error))
        return
    _note(message, result.result, reports)


def _note(message: LeasedMessage, result: str, reports: Reports) -> None:
    if result == "acked":
        reports.counts.acked += 1
    else:
        reports.late(message, result)


def _nack(sender: SyncSender, message: LeasedMessage, reports: Reports, reason: str, delay: timedelta | None) -> None:
    try:
        sender.call(nack(message.topic, message.id, receipt=message.receipt, reason=reason, delay=delay))
    except DelaybridgeError as error:
        if not is_temporary(error) and not isinstance(error, Conflict | NotFound):
            raise
        reports.late(message, str(error))
    else:
        reports.counts.nacked += 1


@contextmanager
def _kept(sender: SyncSender, terms: Terms, message: LeasedMessage) -> Iterator[None]:
    """Extends the lease of the message during the block, for `longest` at most."""
    done = threading.Event()
    thread = threading.Thread(target=_keep, args=(sender, terms, message, done), name="delaybridge-lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _keep(sender: SyncSender, terms: Terms, message: LeasedMessage, done: threading.Event) -> None:
    extended = 0.0
    while extended < terms.longest.total_seconds() and not done.wait(pause_s := terms.until_extension_s()):
        extended += pause_s
        operation = extend(message.topic, message.id, lease=terms.lease, receipt=message.receipt)
        try:
            sender.call(operation, retries=ONCE)
        except DelaybridgeError as error:
            if not is_temporary(error):
                return  # the lease has ended: the answer to the ack will say so
