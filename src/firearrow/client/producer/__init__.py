"""Producers, and their decisions on queues, batches and retries.

`producer` does the I/O; the modules beside it decide and are pure.
"""
