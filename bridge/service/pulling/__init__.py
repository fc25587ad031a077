"""Leases messages to consumers, and deals what is ready to the pulls that wait."""
