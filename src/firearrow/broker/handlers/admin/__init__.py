"""Handlers for operators: topics, settings, running values."""
