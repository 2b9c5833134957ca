"""Logging: one line an event, its values in ``extra``, repeated events damped.

Metric declarations and spans join this package with their first user.
"""
