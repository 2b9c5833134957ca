"""Rows with an identity are stored once: a window of identities for each queue, rebuilt from the log."""
