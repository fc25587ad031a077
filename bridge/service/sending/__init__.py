"""Sends messages: new ones, and ones that replace or extend a live message of the same id."""
