"""Rows with an identity are stored once: windows of identities, rebuilt from the log."""
