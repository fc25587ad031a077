"""Disturbs a simulation. `drawing` decides which faults come when; each other module disturbs one kind of part."""
