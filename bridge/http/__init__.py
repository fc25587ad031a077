"""The bridge over HTTP: its own API (`v1`), other systems' wires, health and metrics. FastAPI is known here alone."""
