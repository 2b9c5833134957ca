"""Timers: messages that are delivered at any time in the future, in Apache's timer files."""
