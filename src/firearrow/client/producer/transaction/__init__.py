"""Transactions: halves, their ends, and the check-backs of brokers."""
