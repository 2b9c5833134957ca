"""The coordinator of a replicated group: the door, and etcd behind it."""
