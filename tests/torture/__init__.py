"""Runs a load on private servers, disturbs the servers, and judges every message.

`plan` decides which fault comes when, and tests/judging.py judges; both are pure. `stage` holds the servers, `faults`
disturbs them, `producers` and `consumers` are the load, and `run` puts all together.
"""
