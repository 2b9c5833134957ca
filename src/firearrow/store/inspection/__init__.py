"""A store directory read from outside, ours or Apache's. Nothing is written and no lock is taken."""
