"""Messages: sent, pulled, looked up."""
