"""Logging for programs: constant messages that name the event, values in ``extra``.

Metric declarations and spans join this package with their first user.
"""
