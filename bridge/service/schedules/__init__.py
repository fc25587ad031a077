"""Keeps schedules, and sends their messages again and again: by cron or at intervals."""
