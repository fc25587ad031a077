"""Schedules: messages that are sent again and again, by cron or at intervals."""
