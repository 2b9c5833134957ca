"""What a broker answers, one module a conversation."""
