"""Keeps what is beside messages: policies, schedules, tokens and more, one module each."""
