"""Name servers: registration and routes."""
