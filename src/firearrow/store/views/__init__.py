"""Queues, index and checkpoint: opened, flushed, resumed and repaired together."""
