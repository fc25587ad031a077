"""Runs equal rounds of load on private servers, and compares what each round leaves behind.

`state` holds what was found and compares it; it is pure. `look` reads it from the servers, and `inside` reads it within
the bridge's process. `load` does a round with the calls of `topics`, `letters` and `wires`, and `run` does a whole run.
"""
