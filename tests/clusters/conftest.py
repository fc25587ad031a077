"""Provides what the fault tests have: their stage, and a patient HTTP client."""

from tests.fault.conftest import http, private_rabbit, stage

__all__ = ["http", "private_rabbit", "stage"]
