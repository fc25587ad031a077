"""Simulates what the bridge talks to, for tests that repeat exactly."""
