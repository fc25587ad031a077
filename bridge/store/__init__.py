"""Keeps records, envelopes and indexes of messages in Redis."""
