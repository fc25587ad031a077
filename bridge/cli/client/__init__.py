"""Holds the commands that call a bridge over HTTP. Imports nothing of the bridge's own work, so they start quickly."""
