"""Defines the bodies of messages, for the bridge and for the peers."""

from __future__ import annotations

from typing import Final

BODY: Final = {"order": 100_000, "customer": "C-20451", "note": "x" * 153}
"""Its compact JSON is 200 bytes."""

LARGE_BODY: Final = BODY | {"note": "x" * 9_953}
"""Its compact JSON is 10,000 bytes."""
