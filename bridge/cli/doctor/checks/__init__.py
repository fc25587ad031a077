"""Decides what is wrong, from the facts that `facts/` gathered. Pure."""
