"""Quotas: how much of a broker users, clients, topics, groups and addresses may use."""
