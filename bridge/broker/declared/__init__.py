"""Declares the objects that must exist on the broker, and remembers which objects exist."""
