"""Sets the limit that tells a small error of a clock from a clock that somebody has set."""

from __future__ import annotations

from typing import Final

STEP_MS: Final = 1_000
"""In ms. If a clock is wrong by less than this, the bridge does not correct it, and simply waits until a message is
due. The scripts of Redis have the same limit (`_record.lua`)."""
