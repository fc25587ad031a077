"""Runs a load on private servers, disturbs the servers, and judges every message.

`plan` decides which fault comes when, and tests/judging.py judges; both are pure. `stage` holds the servers in `parts`,
`faults` disturbs them, `load` puts producers and consumers together, and `run` does a whole run.
"""
