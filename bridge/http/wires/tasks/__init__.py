"""Speaks the wire of a delay-task service: tasks by topic and absolute second."""
