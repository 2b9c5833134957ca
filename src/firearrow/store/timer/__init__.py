"""Timers on disk in Apache's files: the timer log, the wheel, their checkpoint and counts."""
