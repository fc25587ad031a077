"""Keeps schedules, and sends their ticks."""
