"""Serves the calls that send messages."""
