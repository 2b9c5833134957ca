"""Name servers: registration, routes, named texts."""
