"""Consumers: the push consumer, a member of a group, and the pull consumer.

`push_consumer` and `pull_consumer` do the I/O; the modules beside them decide and are pure.
"""
