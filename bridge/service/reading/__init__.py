"""Reads messages, and changes nothing."""
