"""Failover: the in-sync set of a group, elections, and the part of a broker in its group."""
