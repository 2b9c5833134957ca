"""Sending: `producer` is the shell, everything that decides is beside it and pure."""
