"""Replication: a master sends its log to slaves, a slave copies the log and the tables of its master."""
