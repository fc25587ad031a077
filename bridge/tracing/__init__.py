"""Trace contexts of messages, in the form of W3C."""
