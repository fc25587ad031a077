"""The Redis servers that keys live on: one, a master under Sentinel, or the masters of a Redis Cluster."""
