"""The wire of the delay-task service: tasks by topic and absolute second."""
