"""Serves the bridge over HTTP: its own API (`v1`), the wires of other systems, health and metrics."""
