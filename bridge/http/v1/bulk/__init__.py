"""Changes all messages that a filter matches."""
