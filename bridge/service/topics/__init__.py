"""Keeps topics: their list, their policies and their subscriptions."""
