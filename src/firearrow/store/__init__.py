"""Durable storage: Apache's commit log, consume queues, index and configuration files, on any disk.

`store.Store` is the facade; ``docs/internals/store.md`` draws the parts.
"""
