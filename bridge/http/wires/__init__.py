"""Speaks the wires of other delay queues. Each wire is a thin adapter over the service, with its own router."""
