"""Serves the calls that change all messages that a filter matches."""
