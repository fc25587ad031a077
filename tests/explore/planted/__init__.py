"""Lists the defects that the exploration, the simulation or both have to find. Each takes one rule away.

records.py      rules of the scripts about which copy is live
calls.py        rules of sends, changes, settlements, dead letters and removals of topics
checkpoint.py   rules of releases, bundles, kinds and the order of publish, name and acknowledge
deliveries.py   rules of leases, acknowledgements, publisher confirms, the audit, callbacks and schedules
clocks.py       rules that hold after a step of a clock
"""

from __future__ import annotations

from typing import Final

from tests.explore.planted import calls, checkpoint, clocks, deliveries, records
from tests.explore.planted.defect import Planted

__all__ = ["PLANTED", "Planted"]

PLANTED: Final = (*records.PLANTED, *calls.PLANTED, *checkpoint.PLANTED, *deliveries.PLANTED, *clocks.PLANTED)
