"""Stands for facts that could not be gathered."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Missing:
    """`reason`: why the facts are missing, as the end of "not checked: …"."""

    reason: str
