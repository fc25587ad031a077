"""Reads and checks the settings from the environment. Imports the model only."""
