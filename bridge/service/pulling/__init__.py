"""Leases messages to consumers, and deals ready messages to the pulls that want them."""
