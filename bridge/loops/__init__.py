"""Runs the loops that work beside the front end: checkpoint, callbacks, audit, recorded acks, watch."""
