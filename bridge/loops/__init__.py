"""Runs the loops, which work without a caller: checkpoint, ingress, callbacks, audit, schedules, watch and others."""
