"""Sets the limit between the small error of a clock and a clock that was set."""

from __future__ import annotations

from typing import Final

STEP_MS: Final = 1_000
"""In ms. If a clock is wrong by less than this, the bridge does not correct it, and simply waits until a message is
due. The scripts of Redis have the same limit (`_record.lua`)."""
