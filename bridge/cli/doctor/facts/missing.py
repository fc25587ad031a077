"""Describes facts that could not be gathered."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Missing:
    """Takes the place of facts that could not be gathered. `reason`: why, as the end of "not checked: …"."""

    reason: str
