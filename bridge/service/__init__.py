"""Implements the calls on messages and topics, one folder for each kind of call. Pure decisions are next to them."""
