"""Operators: topics, settings, accounts, statistics."""
