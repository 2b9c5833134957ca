"""Transactions: half messages, commits, rollbacks and check-backs, replayed from the log."""
