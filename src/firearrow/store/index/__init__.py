"""The key index: the places of messages, by topic and key."""
