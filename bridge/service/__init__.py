"""Implements the calls on messages and topics, one room for each kind, with the pure decisions next to them."""
