"""Replication: a master sends its log to slaves, a slave copies log and tables."""
