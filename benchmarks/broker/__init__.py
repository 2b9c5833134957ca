"""The cost of a send."""
