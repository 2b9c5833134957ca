"""Messages on disk in Apache's files: commit log, consume queues, key index.

`store.Store` is the facade; ``docs/internals/store.md`` shows the parts.
"""
