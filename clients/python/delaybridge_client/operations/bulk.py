"""Describes the HTTP calls that change all messages that a filter matches, as `Operation` values, without I/O."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from delaybridge_client.encode import given
from delaybridge_client.operation import Operation, keyed, reads, reads_page
from delaybridge_client.values.bulk import BulkOperation, BulkResult
from delaybridge_client.values.message import Filter
from delaybridge_client.values.page import Page


def delete_many(
    filter: Filter, *, dry_run: bool = False, max: int | None = None, idempotency_key: str | None = None
) -> Operation[BulkResult]:
    """Deletes the messages that match the filter, also dead letters. `dry_run`: only counts them."""
    return _bulk("/v1/messages:delete", filter, dry_run, max, {}, key=idempotency_key)


def move_many(
    filter: Filter,
    *,
    delay: timedelta | None = None,
    deliver_at: datetime | None = None,
    dry_run: bool = False,
    max: int | None = None,
    idempotency_key: str | None = None,
) -> Operation[BulkResult]:
    """Moves all waiting messages that match the filter to one due time: `delay` from now, or `deliver_at`."""
    moment = given(delay=delay, deliver_at=deliver_at)
    return _bulk("/v1/messages:move", filter, dry_run, max, moment, key=idempotency_key)


def run_many_now(
    filter: Filter, *, dry_run: bool = False, max: int | None = None, idempotency_key: str | None = None
) -> Operation[BulkResult]:
    """Makes the waiting messages that match the filter due now."""
    return _bulk("/v1/messages:run-now", filter, dry_run, max, {}, key=idempotency_key)


def replay_matching(
    filter: Filter, *, dry_run: bool = False, max: int | None = None, idempotency_key: str | None = None
) -> Operation[BulkResult]:
    """Makes the dead letters that match the filter ready again."""
    return _bulk("/v1/messages:replay", filter, dry_run, max, {}, key=idempotency_key)


def list_operations(*, limit: int | None = None, cursor: str | None = None) -> Operation[Page[BulkOperation]]:
    """Returns a page of the bulk operations, the latest first."""
    return Operation(
        method="GET",
        path="/v1/operations",
        query=given(limit=limit, cursor=cursor),
        read=reads_page(BulkOperation),
    )


def look_at_operation(operation_id: str) -> Operation[BulkOperation]:
    """Returns how far a bulk operation is."""
    path = "/v1/operations/{operation_id}"
    return Operation(method="GET", path=path, names={"operation_id": operation_id}, read=reads(BulkOperation))


def cancel_operation(operation_id: str) -> Operation[BulkOperation]:
    """Cancels a bulk operation. Messages that it has changed stay changed."""
    path = "/v1/operations/{operation_id}/cancel"
    return Operation(method="POST", path=path, names={"operation_id": operation_id}, read=reads(BulkOperation))


def _bulk(
    path: str, filter: Filter, dry_run: bool, most: int | None, further: Mapping[str, Any], *, key: str | None
) -> Operation[BulkResult]:
    # A repeated call without a key might begin a second operation, or change `max` further messages.
    return Operation(
        method="POST",
        path=path,
        headers=keyed(key),
        body={**filter.members(), **given(dry_run=dry_run or None, max=most), **further},
        read=reads(BulkResult),
        repeatable=dry_run or key is not None,
    )
