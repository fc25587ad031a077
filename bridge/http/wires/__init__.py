"""Speaks the wires of other delay queues: thin adapters over the service, one router each."""
