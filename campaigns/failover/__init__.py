"""Failover under proof: an exhaustive search over the rules, and real groups whose brokers are killed."""
