"""Defects of leases, acknowledgements, publisher confirms, the audit, callbacks and schedules."""

from __future__ import annotations

from typing import Final

from tests.explore.planted.defect import Change, Planted

_YOUNG: Final = "bridge.broker.declared.young_queues:YoungQueues"

PLANTED: Final = (
    Planted(
        name="a delivery that was not leased is acknowledged",
        changes=(
            Change(
                "bridge.service.protocol.deliveries:Put.after",
                "return Requeued(self.result) if isinstance(result, Unavailable) else Acked(self.result)",
                "return Acked(self.result)",
            ),
        ),
        scenario="deliver",
        promise="2.",
    ),
    Planted(
        name="a delivery in place of a lease copy is acknowledged at once",
        changes=(
            Change(
                "bridge.service.pulling.leasing:_Lease.after",
                "return Held(outcome) if self.unacked else Acked(outcome)",
                "return Acked(outcome)",
            ),
        ),
        scenario="keep deliveries",
        promise="5.",
    ),
    Planted(
        name="a cancelled lease leaves its deliveries without a settlement",
        changes=(
            Change(
                "bridge.service.protocol.deliveries:settle",
                "for delivery in unsettled.values():\n            delivery.requeue()\n        raise",
                "raise",
            ),
        ),
        mended="1a524433",
        simulated=False,
    ),
    Planted(
        name="a message whose get was given up stays unacknowledged",
        changes=(Change("bridge.broker.client.gets:_requeue", "if delivery is not None:", "if False:"),),
        mended="71922fcc",
    ),
    Planted(
        name="an ack settles all earlier deliveries of its channel",
        changes=(
            Change(
                "bridge.broker.client.ack_window:AckWindow.done",
                "if tag not in finished:\n            break",
                "if tag > max(finished, default=0):\n            break",
            ),
        ),
    ),
    Planted(
        name="a publish without a confirm counts as confirmed",
        changes=(
            Change(
                "bridge.broker.client.confirms:Confirms.errors", "errors[index] = errors[index] or unanswered", "pass"
            ),
        ),
    ),
    Planted(
        name="a confirm by a new queue counts at once",
        changes=(
            Change(
                f"{_YOUNG}.settles_in_s",
                "return max(0.0, self._settles_s(group, 0.0) - monotonic())",
                "return 0.0",
            ),
        ),
        mended="3d62f98a",
    ),
    Planted(
        name="a confirm by a queue that another process has just declared counts at once",
        changes=(
            Change(
                f"{_YOUNG}.exists",
                "self._found_s.setdefault(group, monotonic() + _SETTLES_AFTER_S)",
                "self._found_s.setdefault(group, 0.0)",
            ),
        ),
        mended="e99b3897",
    ),
    Planted(
        name="a confirm by a new queue counts though RabbitMQ was lost since",
        changes=(
            Change(
                "bridge.broker.copy_publisher:CopyPublisher._lost_since",
                "if await self._publisher.connection.lasts(generation):",
                "if True:",
            ),
        ),
        mended="4d1d1a3b",
        simulated=False,
    ),
    Planted(
        name="nobody sends a message again whose queue was deleted",
        changes=(
            Change("bridge.loops.audit:Audit._logged", "await self.run_once()", "await self.run_once(repair=False)"),
        ),
        mended="c306fccf",
    ),
    Planted(
        name="a callback is made for a subscription that is gone",
        changes=(
            Change("bridge.loops.callbacks.delivery:Delivery.deliver", "if not await self._is_current():", "if False:"),
        ),
        mended="1bef2378",
    ),
    Planted(
        name="a schedule that was planned by a clock ahead stays silent",
        changes=(
            Change(
                "bridge.service.schedules.planner:_not_ahead",
                "return schedule.but(position_ms=now_ms, last_ms=min(progress.last_ms, now_ms))",
                "return schedule",
            ),
        ),
        mended="deb90d8c",
    ),
)
