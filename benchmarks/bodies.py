"""Defines the body of every message, for the bridge and for the peers: 200 bytes of JSON."""

from __future__ import annotations

from typing import Final

BODY: Final = {"order": 100_000, "customer": "C-20451", "note": "x" * 153}
"""Its compact JSON is 200 bytes."""
