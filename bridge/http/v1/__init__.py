"""Serves version 1 of the bridge's own API: a module or a package for each group of operations."""
