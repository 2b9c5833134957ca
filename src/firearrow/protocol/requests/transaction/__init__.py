"""Two-phase messages."""
