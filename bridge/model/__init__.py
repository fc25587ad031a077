"""Holds the values, errors and pure rules that every layer uses. Imports nothing else of the bridge."""
