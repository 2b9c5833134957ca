"""Replication: how fast a slave catches up, and what a slave costs its master."""
