"""Statistics of a broker and warnings for its operator: messages, rates, waits, the disk."""
