"""The handlers of a broker, one module a conversation."""
