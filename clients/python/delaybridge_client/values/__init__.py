"""Defines the values that calls take and return: messages, topics, policies and others."""
