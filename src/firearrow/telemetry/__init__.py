"""Metric declarations, log context and spans."""
