"""Groups: members, heartbeats, locks, offsets."""
