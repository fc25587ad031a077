"""Decides which HTTP requests a token allows, and how many a second."""
