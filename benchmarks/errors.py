"""Defines the error of a run that could not be measured."""

from __future__ import annotations


class BenchError(Exception):
    """A run could not be done as planned. The message says which one and why."""
