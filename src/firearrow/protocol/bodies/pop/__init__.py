"""Popped messages and lite topics (5.x)."""
