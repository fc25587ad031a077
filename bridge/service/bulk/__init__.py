"""Carries out an action on all messages that a filter matches."""
