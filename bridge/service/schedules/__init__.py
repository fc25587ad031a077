"""Keeps schedules, and sends their messages again and again: by cron or at intervals. A tick is one moment at which a
schedule sends its message."""
