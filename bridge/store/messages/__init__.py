"""Builds the calls of the scripts about messages, and reads their answers. Pure."""
