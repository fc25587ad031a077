"""Runs the loops, which work without a caller: checkpoint, callbacks, audit, recorded acks, watch."""
