"""Lists, replays and drops dead letters."""
