"""Declares what must exist on the broker, and remembers what does."""
