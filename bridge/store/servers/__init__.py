"""Talks to the Redis servers that hold the keys: one server, a master under Sentinel, or a Redis Cluster."""
