"""Keeps in Redis what belongs to no single message: policies, schedules, tokens and more, one module each."""
