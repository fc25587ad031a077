"""Combines the services of all pools into what one bridge process serves."""
