"""Holds the values that calls take and answer with: messages, topics, policies and others."""
