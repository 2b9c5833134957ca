"""Handlers for messages: sends, send-backs, pulls, lookups."""
