"""The name server: knows which broker holds which topic."""
