"""Defines the metrics for Prometheus, one module for each theme. All but those of `states` belong to this process."""
