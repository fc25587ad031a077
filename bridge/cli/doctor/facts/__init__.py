"""Gathers facts about the settings, the servers and a running bridge. Changes nothing."""
