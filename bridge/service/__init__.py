"""Implements the operations on messages and topics, one module each, with the pure decisions next to them."""
