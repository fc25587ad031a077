"""Serves the calls on schedules and on their ticks."""
