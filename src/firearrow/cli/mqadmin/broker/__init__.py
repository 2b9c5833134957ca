"""Commands about single brokers."""
