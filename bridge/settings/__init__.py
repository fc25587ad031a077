"""Reads the environment. Imports the model only."""
