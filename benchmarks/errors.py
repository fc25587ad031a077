"""What makes a measurement worthless."""

from __future__ import annotations


class BenchError(Exception):
    """A run could not be carried out as it must be; the message says which and why."""
