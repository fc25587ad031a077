"""Describes an operation as a value, reads its requests and writes its answers."""
