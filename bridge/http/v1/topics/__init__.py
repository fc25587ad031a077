"""Serves the calls on topics, their policies and their subscriptions."""
