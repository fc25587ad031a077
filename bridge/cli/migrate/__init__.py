"""Moves exchanges of the delayed-message plugin to plain ones, and back."""
