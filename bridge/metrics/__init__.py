"""Counts for Prometheus, one module a theme. Counters belong to this process; `states` is read at each scrape."""
