"""Commands about consumer groups and clients."""
