"""Defines the metrics for Prometheus, one module for each theme. The metrics of `states` are the same in every process;
all other metrics belong to this process."""
