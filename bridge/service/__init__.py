"""Implements the calls on messages and topics, one folder for each kind of call. Each folder also has the pure
functions that decide for these calls."""
