"""A load with faults in it, and a check of what became of every message: accepted, delivered, lost, early, twice.

`plan` says which faults come when, `history` judges; both are pure. `stage` holds the servers, `faults` does to them
what the plan says, `producers` and `consumers` are the load, and `run` has them all at work together.
"""
