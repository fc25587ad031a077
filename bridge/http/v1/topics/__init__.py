"""Keeps topics, their policies and their subscriptions."""
