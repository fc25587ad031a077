"""Serves version 1 of the bridge's own API, one module for each group of operations."""
