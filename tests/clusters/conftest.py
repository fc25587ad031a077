"""Provides what the fault tests have: their stage, and a patient HTTP client."""

from tests.fault.conftest import http, stage

__all__ = ["http", "stage"]
