"""The division of queues among the members of a group: strategies, rebalancing, locks, offsets."""
