"""Decides by the facts what is wrong. Pure."""
