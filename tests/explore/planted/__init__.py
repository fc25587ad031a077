"""Lists the defects that the exploration, the simulation or both have to find. Each takes one rule away.

records.py      rules of the scripts about which copy is live
calls.py        rules of sends, changes, settlements and dead letters
checkpoint.py   rules of releases, bundles and the order of publish, name and acknowledge
deliveries.py   rules of leases, acknowledgements, publisher confirms, the audit, callbacks and schedules
"""

from __future__ import annotations

from typing import Final

from tests.explore.planted import calls, checkpoint, deliveries, records
from tests.explore.planted.defect import Planted

__all__ = ["PLANTED", "Planted"]

PLANTED: Final = (*records.PLANTED, *calls.PLANTED, *checkpoint.PLANTED, *deliveries.PLANTED)
