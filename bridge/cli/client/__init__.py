"""Holds the commands that call a bridge over HTTP. They start quickly, as they import none of the code of a bridge."""
