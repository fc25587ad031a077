"""Holds the commands that call a bridge over HTTP. They start quickly, as they import little of the code of a
bridge."""
