"""Sends messages: new messages, and messages that replace or extend a live message of the same id."""
