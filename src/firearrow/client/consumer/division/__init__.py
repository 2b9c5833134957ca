"""Which queues a member owns: strategies, rebalancing, locks, offsets."""
