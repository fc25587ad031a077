"""Loops that run by themselves, beside the front end."""
