"""Combines the services of all pools, so that one bridge process serves them together."""
