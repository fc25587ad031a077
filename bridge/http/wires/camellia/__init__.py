"""Speaks the wire of camellia-delay-queue."""
