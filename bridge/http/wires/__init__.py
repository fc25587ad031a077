"""Serves the HTTP protocols (wires) of other delay queues to their clients. Each wire is a thin adapter over the
service, with its own router."""
