"""Messages: looked up in consume queues."""
