"""Looks up messages and their timelines, and changes nothing."""
