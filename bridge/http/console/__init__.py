"""Serves the console, in which operators see and steer messages. Its pages call the API as any client does."""
