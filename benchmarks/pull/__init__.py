"""The way of the log's bytes to a consumer."""
