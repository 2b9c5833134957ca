"""How the bytes of the log get to a consumer."""
