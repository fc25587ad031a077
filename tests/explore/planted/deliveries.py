"""Defects of leases, acknowledgements and publisher confirms."""

from __future__ import annotations

from typing import Final

from tests.explore.planted.defect import Change, Planted

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
        simulated=False,
    ),
)
