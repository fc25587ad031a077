"""The HTTP server: its protocol, its limits and the fast path."""
