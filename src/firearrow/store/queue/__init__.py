"""Consume queues: the place of every message, by topic, queue and queue offset."""
