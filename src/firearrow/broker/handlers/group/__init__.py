"""Handlers for groups: members, heartbeats, locks, offsets."""
