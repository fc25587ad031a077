"""Keeps data in Redis that belongs to no single message: policies, schedules, tokens and more, one module each."""
